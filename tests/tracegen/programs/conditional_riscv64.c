/* Freestanding RISC-V 64: 100 times a load with a reservation, a store on it, and one without any, which fails. */
long data[2];

__asm__(".globl _start\n"
        "_start:\n"
        ".option norelax\n"
        "  lla a1, data\n"
        "  li a2, 100\n"
        "1: lr.d a0, (a1)\n"
        "  sc.d a3, a1, (a1)\n"
        "  sc.d a4, a2, (a1)\n"
        "  addi a2, a2, -1\n"
        "  bnez a2, 1b\n"
        "  li a7, 93\n"
        "  seqz a0, a4\n"
        "  ecall\n");
