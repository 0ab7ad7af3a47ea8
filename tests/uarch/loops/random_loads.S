/* Words of 16 MiB at random places are read, as many at once as the core can. */
#include "loop.inc"
    .lcomm table, 1 << 24
    SEED
    lea table(%rip), %rbx
    .p2align 6
1:  RANDOM
    PLACE 0xFFFFC0
    mov (%rbx, %rdi), %rsi
    lea (%rsi, %r8), %r8
    AGAIN
