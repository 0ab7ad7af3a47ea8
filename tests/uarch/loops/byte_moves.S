/* A register's byte extended again and again. gem5 moves it into a part of its temporary register first, which waits for
   the byte that was loaded into it before. */
#include "loop.inc"
    .lcomm words, 4096
    lea words(%rip), %rdx
    .p2align 6
1:  movzbl 8(%rdx), %ecx
    movzbl %bl, %ebx
    movsbl %bl, %ebx
    movzbl %bl, %ebx
    movzbl 16(%rdx), %ecx
    movzbl %bl, %ebx
    movsbl %bl, %ebx
    AGAIN
