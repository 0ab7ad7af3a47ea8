/* 512 pieces of code 576 bytes apart, four additions and a jump each: what is fetched beyond the jumps. */
#include "loop.inc"
    .p2align 6
1:  .rept 512
    add $1, %rax
    add $1, %rbx
    add $1, %rdx
    add $1, %rsi
    jmp 2f
    .balign 64
    .rept 128
    add $1, %rax
    .endr
2:
    .endr
    dec %r15
    jnz 1b
    END
