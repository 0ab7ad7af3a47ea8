/* A divide, and a branch on something else behind it, which nothing can foresee. */
#include "loop.inc"
    SEED
    mov %rax, %r10
    mov $7, %ebx
    .p2align 6
1:  imul %r12, %r10
    lea 12345(%r10), %r10
    mov $1000, %eax
    xor %edx, %edx
    div %ebx
    test %r13, %r10
    jz 2f
    add $1, %r8
2:  AGAIN
