/* 3 n + 3 instructions: xor, n times (add, dec, jnz), mov, ret. */
#ifndef NAME
#define NAME library_work
#endif
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

long NAME(long n);
__asm__(".globl " TEXT(NAME) "\n"
        ".type " TEXT(NAME) ", @function\n"
        TEXT(NAME) ":\n"
        "xor %ecx, %ecx\n"
        "1: add %rdi, %rcx\n"
        "dec %rdi\n"
        "jnz 1b\n"
        "mov %rcx, %rax\n"
        "ret\n"
        ".size " TEXT(NAME) ", . - " TEXT(NAME) "\n");
