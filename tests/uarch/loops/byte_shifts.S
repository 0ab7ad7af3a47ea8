/* psrldq, which branches within gem5's microcode, among additions. */
#include "loop.inc"
    .p2align 6
1:  psrldq $4, %xmm0
    add $1, %rax
    add $1, %rbx
    add $1, %rdx
    add $1, %rsi
    psrldq $8, %xmm1
    add $1, %rax
    add $1, %rbx
    add $1, %rdx
    add $1, %rsi
    AGAIN
