/* Probes at random places of 4 MiB, each followed by a branch on what was found; the next place does not depend on it.
   The load behind the branch was often executed on the wrong path already. */
#include "loop.inc"
    .lcomm table, 1 << 22
    SEED
    lea table(%rip), %rbx
    .p2align 6
1:  RANDOM
    PLACE 0x3FFFC0
    mov (%rbx, %rdi), %rsi
    xor %rax, %rsi
    test %r13, %rsi
    jz 2f
    add $1, %r8
2:  AGAIN
