/* Bytes in memory added up. gem5 loads each into a part of one temporary register, which is read as it is written: a
   load waits for the one before it, until an instruction has written the whole register (here the branch). */
#include "loop.inc"
    .lcomm words, 4096
    lea words(%rip), %rdx
    .p2align 6
1:  movzbl 8(%rdx), %ebx
    addb 16(%rdx), %bl
    addb 24(%rdx), %bl
    addb 32(%rdx), %bl
    addb 40(%rdx), %bl
    addb 48(%rdx), %bl
    addb 56(%rdx), %bl
    AGAIN
