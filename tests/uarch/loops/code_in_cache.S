/* 4 KiB of code without a branch, over and over, which the first level holds. */
#include "loop.inc"
    .p2align 6
1:  .rept 256
    add $1, %rax
    add $1, %rbx
    add $1, %rdx
    add $1, %rsi
    .endr
    AGAIN
