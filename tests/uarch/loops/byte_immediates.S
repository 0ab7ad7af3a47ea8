/* Bytes and half-words in memory and immediates of as many bits: each goes to a part of gem5's temporary register, or of the
   register that it is loaded into, and waits for the rest. */
#include "loop.inc"
    .lcomm words, 4096
    lea words(%rip), %rdx
    .p2align 6
1:  cmpb $5, 8(%rdx)
    cmpb $3, %bl
    testb $1, %cl
    movb $1, 24(%rdx)
    movzwl 32(%rdx), %eax
    movswl 40(%rdx), %esi
    movb 48(%rdx), %cl
    addw $7, %bx
    AGAIN
