/* Two calls of a function of three instructions. */
#include "loop.inc"
    .p2align 6
1:  call 2f
    add $1, %rax
    call 2f
    AGAIN
    .p2align 6
2:  add $1, %rbx
    add $1, %rdx
    ret
