/* Loads, each with an addition behind it that needs it, and one that does not. */
#include "loop.inc"
    .lcomm words, 4096
    lea words(%rip), %rbx
    .p2align 6
1:  .rept 8
    mov (%rbx), %rax
    add %rax, %rdx
    add $1, %rsi
    .endr
    AGAIN
