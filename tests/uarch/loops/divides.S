/* Two divides of numbers that do not depend on each other: gem5's conditional micro-operations chain them by flags. */
#include "loop.inc"
    mov $7, %ebx
    mov $11, %esi
    .p2align 6
1:  mov $1000, %eax
    xor %edx, %edx
    div %ebx
    mov %eax, %r8d
    mov $3000, %eax
    xor %edx, %edx
    div %esi
    mov %eax, %r9d
    AGAIN
