/* A load that the second level answers, with four loads behind it that the first one has. */
#include "loop.inc"
    .lcomm table, 1 << 18
    lea table(%rip), %rbx
    xor %ecx, %ecx
    .p2align 6
1:  mov (%rbx, %rcx), %rax
    mov (%rbx), %rdx
    mov 8(%rbx), %rsi
    mov 16(%rbx), %rdi
    mov 24(%rbx), %r8
    add $8320, %ecx
    and $0x3FFC0, %ecx
    AGAIN
