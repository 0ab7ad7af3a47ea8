/* Stores of eight words side by side. */
#include "loop.inc"
    .lcomm words, 4096
    lea words(%rip), %rbx
    .p2align 6
1:  mov %rax, (%rbx)
    mov %rax, 8(%rbx)
    mov %rax, 16(%rbx)
    mov %rax, 24(%rbx)
    mov %rax, 32(%rbx)
    mov %rax, 40(%rbx)
    mov %rax, 48(%rbx)
    mov %rax, 56(%rbx)
    AGAIN
