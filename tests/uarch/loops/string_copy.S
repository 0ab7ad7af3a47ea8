/* rep movsq of 16 words. */
#include "loop.inc"
    .lcomm words, 4096
    .p2align 6
1:  lea words(%rip), %rdi
    lea 2048(%rdi), %rsi
    mov $16, %ecx
    rep movsq
    AGAIN
