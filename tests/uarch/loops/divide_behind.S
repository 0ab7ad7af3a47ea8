/* A divide behind a loop, which the core begins before it knows better. */
#include "loop.inc"
    mov $7, %ebx
    mov $1000, %eax
    xor %edx, %edx
    .p2align 6
1:  add $1, %rcx
    add $1, %rsi
    add $1, %rdi
    add $1, %r8
    dec %r15
    jnz 1b
    div %ebx
    END
