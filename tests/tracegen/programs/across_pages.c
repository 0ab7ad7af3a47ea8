/* A loop of 100 rounds with an instruction that begins two bytes before a page's end. */
__asm__(".globl _start\n"
        ".p2align 12\n"
        ".fill 4096 - 10, 1, 0x90\n"
        "_start: mov $100, %ecx\n" /* 5 bytes, from 4086 on */
        "again: nop\nnop\nnop\n"  /* up to 4094 */
        "mov $7, %eax\n"            /* 5 bytes across the pages */
        "dec %ecx\n"
        "jnz again\n"
        "mov $60, %eax\nxor %edi, %edi\nsyscall\n");
