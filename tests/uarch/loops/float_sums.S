/* Sums and products of floating-point numbers, two chains. */
#include "loop.inc"
    .p2align 6
1:  .rept 4
    addsd %xmm1, %xmm0
    mulsd %xmm3, %xmm2
    add $1, %rdx
    .endr
    AGAIN
