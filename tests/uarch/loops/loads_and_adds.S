/* Loads, each with three additions behind it that need nothing of it. */
#include "loop.inc"
    .lcomm words, 4096
    lea words(%rip), %rbx
    .p2align 6
1:  .rept 8
    mov (%rbx), %rax
    add $1, %rdx
    add $1, %rsi
    add $1, %rdi
    .endr
    AGAIN
