/* 32 loads of one word that do not depend on each other. */
#include "loop.inc"
    .lcomm words, 4096
    lea words(%rip), %rbx
    .p2align 6
1:  .rept 8
    mov (%rbx), %rax
    mov (%rbx), %rdx
    mov (%rbx), %rsi
    mov (%rbx), %rdi
    .endr
    AGAIN
