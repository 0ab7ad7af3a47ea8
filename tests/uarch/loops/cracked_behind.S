/* Instructions of many micro-operations behind a loop, which hold up decode. */
#include "loop.inc"
    .lcomm words, 4096
    lea words(%rip), %rbx
    .p2align 6
1:  add $1, %rcx
    add $1, %rsi
    add $1, %rdi
    add $1, %r8
    dec %r15
    jnz 1b
    .rept 4
    addq $1, (%rbx)
    .endr
    END
