/* A copy of 16 KiB with movntps, again and again. */
#include "loop.inc"
    .lcomm from, 1 << 14
    .balign 64
    .lcomm to, 1 << 14
    lea from(%rip), %rbx
    lea to(%rip), %rdi
    xor %ecx, %ecx
    .p2align 6
1:  movups (%rbx, %rcx), %xmm0
    movups 16(%rbx, %rcx), %xmm1
    movups 32(%rbx, %rcx), %xmm2
    movups 48(%rbx, %rcx), %xmm3
    movntps %xmm0, (%rdi, %rcx)
    movntps %xmm1, 16(%rdi, %rcx)
    movntps %xmm2, 32(%rdi, %rcx)
    movntps %xmm3, 48(%rdi, %rcx)
    add $64, %ecx
    and $0x3FFF, %ecx
    AGAIN
