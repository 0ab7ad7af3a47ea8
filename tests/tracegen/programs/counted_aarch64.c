/* Freestanding AArch64: adrp, add, mov (3); 1000 times ldr, add, str, subs, b.ne (5000); mov, mov, svc (3): 5006. */
long data[2];

__asm__(".globl _start\n"
        "_start:\n"
        "  adrp x1, data\n"
        "  add x1, x1, :lo12:data\n"
        "  mov x2, #1000\n"
        "1: ldr x0, [x1]\n"
        "  add x0, x0, #3\n"
        "  str w0, [x1, #8]\n"
        "  subs x2, x2, #1\n"
        "  b.ne 1b\n"
        "  mov x8, #93\n"
        "  mov x0, #0\n"
        "  svc #0\n");
