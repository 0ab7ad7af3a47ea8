/* Products of pairs of registers that do not depend on each other: gem5 makes them in two temporary registers. */
#include "loop.inc"
    .p2align 6
1:  pmaddwd %xmm1, %xmm0
    pmaddwd %xmm3, %xmm2
    pmaddwd %xmm5, %xmm4
    pmaddwd %xmm7, %xmm6
    AGAIN
