/* A sum over 8 MiB. */
#include "loop.inc"
    .lcomm table, 1 << 23
    lea table(%rip), %rbx
    xor %ecx, %ecx
    .p2align 6
1:  add (%rbx, %rcx), %rax
    add $8, %ecx
    and $0x7FFFFF, %ecx
    AGAIN
