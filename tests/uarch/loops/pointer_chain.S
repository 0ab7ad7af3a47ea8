/* A chain of loads, each of which reads the address of the next one. */
#include "loop.inc"
    .lcomm words, 4096
    lea words(%rip), %rbx
    mov %rbx, (%rbx)
    .p2align 6
1:  .rept 16
    mov (%rbx), %rbx
    .endr
    AGAIN
