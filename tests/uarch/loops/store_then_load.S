/* A word written and read again: forwarding. */
#include "loop.inc"
    .lcomm words, 4096
    lea words(%rip), %rbx
    .p2align 6
1:  mov %rax, (%rbx)
    mov (%rbx), %rax
    add $1, %rax
    AGAIN
