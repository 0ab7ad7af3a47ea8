/* Freestanding AArch64 with SVE: adrp, add, ptrue, mov (4); 1000 times ld1w, fadd, st1w, subs, b.ne (5000); mov, mov,
 * svc (3): 5007. */
long data[512];

__asm__(".arch armv8-a+sve\n"
        ".globl _start\n"
        "_start:\n"
        "  adrp x1, data\n"
        "  add x1, x1, :lo12:data\n"
        "  ptrue p0.s\n"
        "  mov x2, #1000\n"
        "1: ld1w {z0.s}, p0/z, [x1]\n"
        "  fadd z0.s, z0.s, z0.s\n"
        "  st1w {z0.s}, p0, [x1]\n"
        "  subs x2, x2, #1\n"
        "  b.ne 1b\n"
        "  mov x8, #93\n"
        "  mov x0, #0\n"
        "  svc #0\n");
