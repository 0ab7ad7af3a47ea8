/* Four additions that depend on each other: the simplest loop there is. */
#include "loop.inc"
    .p2align 6
1:  add $1, %rax
    add $2, %rax
    add $3, %rax
    add $4, %rax
    AGAIN
