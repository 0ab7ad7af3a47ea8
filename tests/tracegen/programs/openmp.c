/* Thirty calls of 3 * 100 + 3 instructions, shared out among OpenMP's threads. */
void counted(long n);
__asm__(".globl counted\n.type counted, @function\ncounted:\n"
        "xor %eax, %eax\n1: add %rdi, %rax\ndec %rdi\njnz 1b\nnop\nret\n.size counted, . - counted\n");

int main(void)
{
#pragma omp parallel for schedule(static)
    for (int i = 0; i < 30; i++) {
        counted(100);
    }
    return 0;
}
