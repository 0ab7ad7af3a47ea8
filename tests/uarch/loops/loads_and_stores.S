/* Loads of one word and stores of another in turns. */
#include "loop.inc"
    .lcomm words, 4096
    lea words(%rip), %rbx
    .p2align 6
1:  .rept 8
    mov (%rbx), %rax
    mov %rdx, 64(%rbx)
    .endr
    AGAIN
