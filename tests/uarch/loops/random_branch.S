/* A branch that nothing can foresee, around one addition: what a misprediction costs. */
#include "loop.inc"
    SEED
    .p2align 6
1:  RANDOM
    test %r13, %rax
    jz 2f
    add $1, %r8
2:  AGAIN
