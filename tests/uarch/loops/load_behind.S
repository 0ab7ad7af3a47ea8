/* A load of the second level's behind a loop, which the core sends before it knows better. */
#include "loop.inc"
    .lcomm table, 1 << 18
    lea table(%rip), %rbx
    xor %ecx, %ecx
    .p2align 6
1:  add $8320, %ecx
    and $0x3FFC0, %ecx
    add $1, %rax
    add $1, %rdx
    add $1, %rsi
    add $1, %rdi
    dec %r15
    jnz 1b
    mov (%rbx, %rcx), %r8
    END
