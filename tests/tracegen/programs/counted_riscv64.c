/* Freestanding RISC-V 64: auipc, addi, li (3); 1000 times ld, addi, sw, addi, bnez (5000); li, li, ecall (3): 5006. */
long data[2];

__asm__(".globl _start\n"
        "_start:\n"
        ".option norelax\n"
        "  lla a1, data\n"
        "  li a2, 1000\n"
        "1: ld a0, 0(a1)\n"
        "  addi a0, a0, 3\n"
        "  sw a0, 8(a1)\n"
        "  addi a2, a2, -1\n"
        "  bnez a2, 1b\n"
        "  li a7, 93\n"
        "  li a0, 0\n"
        "  ecall\n");
