/* Stores that walk 16 KiB, a line each, with a load of another line between them. */
#include "loop.inc"
    .lcomm words, 1 << 15
    lea words(%rip), %rbx
    xor %ecx, %ecx
    .p2align 6
1:  mov %rax, (%rbx, %rcx)
    mov 16384(%rbx, %rcx), %rdx
    mov %rax, 64(%rbx, %rcx)
    mov 16448(%rbx, %rcx), %rsi
    add $128, %ecx
    and $0x3FFF, %ecx
    AGAIN
