/* Freestanding AArch64: 100 times a load with a reservation, a store on it, and one without any, which fails. */
long data[2];

__asm__(".globl _start\n"
        "_start:\n"
        "  adrp x1, data\n"
        "  add x1, x1, :lo12:data\n"
        "  mov x2, #100\n"
        "1: ldxr x0, [x1]\n"
        "  stxr w3, x1, [x1]\n"
        "  stlxr w4, x2, [x1]\n"
        "  subs x2, x2, #1\n"
        "  b.ne 1b\n"
        "  mov x8, #93\n"
        "  eor w0, w4, #1\n"
        "  svc #0\n");
