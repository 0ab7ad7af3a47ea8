/* A chain of loads from random places of 16 MiB: the place follows from what was read, which is 0. */
#include "loop.inc"
    .lcomm table, 1 << 24
    SEED
    lea table(%rip), %rbx
    .p2align 6
1:  RANDOM
    PLACE 0xFFFFC0
    mov (%rbx, %rdi), %rdi
    lea (%rdi, %rax), %rax
    AGAIN
