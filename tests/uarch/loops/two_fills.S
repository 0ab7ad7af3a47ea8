/* Two arrays are filled side by side, and a return comes behind the loop: its load goes to memory in each round. */
#include "loop.inc"
    .lcomm words, 1 << 16
    lea words(%rip), %rbx
    call 3f
    END
    .p2align 6
3:  xor %ecx, %ecx
    .p2align 6
1:  mov %ax, (%rbx, %rcx, 2)
    movl $0xFFFFFFFF, 32768(%rbx, %rcx, 4)
    add $1, %ecx
    and $0x1FFF, %ecx
    dec %r15
    jnz 1b
    ret
