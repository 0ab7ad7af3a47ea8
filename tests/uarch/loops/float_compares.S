/* Comparisons of floating-point numbers that do not depend on each other but for the flags. */
#include "loop.inc"
    .p2align 6
1:  comisd %xmm1, %xmm0
    comisd %xmm3, %xmm2
    comisd %xmm5, %xmm4
    comisd %xmm7, %xmm6
    AGAIN
