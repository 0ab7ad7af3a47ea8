/* Freestanding x86-64: a known number of instructions, loads and stores.
 * _start: lea, mov (2); 1000 times load, add, store, dec, jnz (5000); mov, xor, syscall (3): 5005 instructions. */
long data[2];

__asm__(".globl _start\n"
        "_start:\n"
        "  lea data(%rip), %rbx\n"
        "  mov $1000, %ecx\n"
        "again:\n"
        "  mov (%rbx), %rax\n"
        "  add $3, %rax\n"
        "  mov %eax, 8(%rbx)\n"
        "  dec %ecx\n"
        "  jnz again\n"
        "  mov $60, %eax\n"
        "  xor %edi, %edi\n"
        "  syscall\n");
