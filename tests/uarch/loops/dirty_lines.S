/* Words of 16 MiB at random places are changed: reads and written-back lines in the order of chance. */
#include "loop.inc"
    .lcomm table, 1 << 24
    SEED
    lea table(%rip), %rbx
    .p2align 6
1:  RANDOM
    PLACE 0xFFFFC0
    mov (%rbx, %rdi), %rsi
    lea 1(%rsi), %rsi
    mov %rsi, (%rbx, %rdi)
    AGAIN
