/* Shifts of registers that do not depend on each other but for the flags. */
#include "loop.inc"
    .p2align 6
1:  shl $3, %rax
    shr $5, %rbx
    shl $7, %rcx
    shr $9, %rdx
    shl $3, %rsi
    shr $5, %rdi
    shl $7, %r8
    shr $9, %r9
    AGAIN
