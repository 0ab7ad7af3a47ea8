/* a[i] = b[i] + c[i] over arrays of 4 MiB, whose rows are in the same bank of a DRAM. */
#include "loop.inc"
    .balign 4096
    .lcomm arrays, 3 << 22
    lea arrays(%rip), %rbx
    lea (1 << 22)(%rbx), %rsi
    lea (2 << 22)(%rbx), %rdi
    xor %ecx, %ecx
    .p2align 6
1:  mov (%rsi, %rcx), %rax
    add (%rdi, %rcx), %rax
    mov %rax, (%rbx, %rcx)
    add $8, %ecx
    and $0x3FFFFF, %ecx
    AGAIN
