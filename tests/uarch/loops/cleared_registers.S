/* A chain that begins with a register cleared: gem5 does not know that it needs nothing of the round before. */
#include "loop.inc"
    .p2align 6
1:  xor %eax, %eax
    add $1, %rax
    add $1, %rax
    add $1, %rax
    add $1, %rax
    pxor %xmm0, %xmm0
    addsd %xmm1, %xmm0
    mulsd %xmm2, %xmm0
    AGAIN
