/* Jumps from line to line within the first level, at the beginning, in the middle and at the end of a line. */
#include "loop.inc"
    .p2align 6
1:  jmp 2f
    .balign 64
    .rept 6
    add $1, %rax
    .endr
2:  add $1, %rbx
    jmp 3f
    .balign 64
    .rept 6
    add $1, %rax
    .endr
3:  add $1, %rbx
    .rept 12
    add $1, %rdx
    .endr
    jmp 4f
    .balign 64
    .rept 6
    add $1, %rax
    .endr
4:  AGAIN
