/* Freestanding x86-64: lea, mov, xor (3); rep stosb of 64 bytes (1); lea, lea, mov (3); rep movsq of 4 (1);
 * xor, rep stosb of none (2); mov, xor, syscall (3): 13 instructions; 64 + 4 stores, 4 loads. */
char buffer[128];

__asm__(".globl _start\n"
        "_start:\n"
        "  lea buffer(%rip), %rdi\n"
        "  mov $64, %ecx\n"
        "  xor %eax, %eax\n"
        "  rep stosb\n"
        "  lea buffer(%rip), %rsi\n"
        "  lea buffer+64(%rip), %rdi\n"
        "  mov $4, %ecx\n"
        "  rep movsq\n"
        "  xor %ecx, %ecx\n"
        "  rep stosb\n"
        "  mov $60, %eax\n"
        "  xor %edi, %edi\n"
        "  syscall\n");
