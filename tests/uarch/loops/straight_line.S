/* 160 KiB of code without a branch, over and over: every line comes from behind the first level. */
#include "loop.inc"
    .p2align 6
1:  .rept 10240
    add $1, %rax
    add $1, %rbx
    add $1, %rdx
    add $1, %rsi
    .endr
    dec %r15
    jnz 1b
    END
