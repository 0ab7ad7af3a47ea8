/* movnti, which traps each time in gem5, among additions. */
#include "loop.inc"
    .lcomm words, 4096
    lea words(%rip), %rbx
    .p2align 6
1:  movnti %rax, (%rbx)
    .rept 12
    add $1, %r8
    .endr
    AGAIN
