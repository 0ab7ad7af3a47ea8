/* Places of a hash table one after another, as an open hash is searched: twelve operations of integers and a load in a round,
   of which four are a chain. */
#include "loop.inc"
    .lcomm table, 4096
    lea table(%rip), %rdx
    mov $255, %r11d
    xor %ecx, %ecx
    .p2align 6
1:  sub $1, %ecx
    cmovb %r11d, %ecx
    mov %ecx, %eax
    shl $4, %rax
    add %rdx, %rax
    cmpq $0, (%rax)
    AGAIN
