/* A chain of products, with three additions behind each that need nothing of it: a unit whose result waits stands still. */
#include "loop.inc"
    mov $3, %eax
    .p2align 6
1:  .rept 4
    imul %rax, %rax
    add $1, %rdx
    add $1, %rsi
    add $1, %rdi
    .endr
    AGAIN
