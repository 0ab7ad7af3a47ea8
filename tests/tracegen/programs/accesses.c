/* Freestanding x86-64: loads and stores of each size at known places. */
char data[64] __attribute__((aligned(64)));

__asm__(".globl _start\n"
        "_start:\n"
        "  lea data(%rip), %rbx\n"
        "  movb $1, (%rbx)\n"
        "  movw $2, 2(%rbx)\n"
        "  movl $3, 4(%rbx)\n"
        "  movq $4, 8(%rbx)\n"
        "  movzbl (%rbx), %eax\n"
        "  movzwl 2(%rbx), %eax\n"
        "  movl 4(%rbx), %eax\n"
        "  movq 8(%rbx), %rax\n"
        "  addl $1, 4(%rbx)\n"
        "  push %rax\n"
        "  pop %rcx\n"
        "  mov $60, %eax\n"
        "  xor %edi, %edi\n"
        "  syscall\n");
