/* rep stosq of 16 words. */
#include "loop.inc"
    .lcomm words, 4096
    .p2align 6
1:  lea words(%rip), %rdi
    mov $16, %ecx
    rep stosq
    add $1, %rax
    AGAIN
