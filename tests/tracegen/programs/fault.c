/* Freestanding x86-64: `nop` twice, a load that faults, and two instructions of the same block that never run.
 * 3 + 2 executed: lea, mov, xor, nop, nop. */
char data[8];

__asm__(".globl _start\n"
        "_start:\n"
        "  lea data(%rip), %rbx\n"
        "  mov (%rbx), %ecx\n"
        "  xor %eax, %eax\n"
        "  nop\n"
        "  nop\n"
        "  mov (%rax), %rdx\n"
        "  mov (%rbx), %rdx\n"
        "  inc %rdx\n"
        "  jmp _start\n");
