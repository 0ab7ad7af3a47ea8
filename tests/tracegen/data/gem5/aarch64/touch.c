/* What gem5's text shows in an unusual way, for AArch64: first touches of pages, an access across pages, system calls,
 * pairs, structures, exclusive, atomic and 16-byte accesses, dc zva, a prefetch, a no-operation, SVE, floating point, a
 * division, calls.
 * aarch64-linux-gnu-gcc -O1 -march=armv8.2-a+sve -static -nostdlib -fno-stack-protector -fno-tree-vectorize
 *     -fno-tree-loop-distribute-patterns -o touch touch.c */
static float four[16] __attribute__((aligned(64)));
static long pair[2] __attribute__((aligned(16)));
static char zeroed[128] __attribute__((aligned(64)));
static long total;
static __attribute__((noinline)) long sum(const char *begin, int count) { return count ? *begin + sum(begin + 1, count - 1) : 0; }
static long call(long number, long first, const void *second, long third) {
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = first, x2 __asm__("x2") = third;
    register const void *x1 __asm__("x1") = second;
    register long flags __asm__("x3") = 0x22, file __asm__("x4") = -1, offset __asm__("x5") = 0; /* of mmap */
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(flags), "r"(file), "r"(offset) : "memory");
    return x0;
}
void _start(void) {
    char *pages = (char *)call(222, 0, (const void *)(6 * 4096), 3);
    long count = 40, one = 1, old, other;
    for (int page = 0; page < 3; page++) pages[page * 8192 % 20480] = (char)(page + 1);
    *(volatile long *)(pages + 3 * 4096 - 4) = 0x0102030405060708;
    for (int i = 0; i < 16; i++) four[i] = (float)i;
    __asm__ volatile("ldp x9, x10, [%0]\n stp x10, x9, [%0]\n ldp w9, w10, [%0]\n ldpsw x9, x10, [%0]\n"
                     "ldr q0, [%1]\n ldp q1, q2, [%1, #16]\n fadd v0.4s, v0.4s, v1.4s\n str q0, [%1]\n"
                     "stp d1, d2, [%1, #48]\n ldrsb w9, [%0]\n ldrh w10, [%0, #2]\n nop\n"
                     : : "r"(pair), "r"(four) : "x9", "x10", "v0", "v1", "v2", "memory");
    __asm__ volatile("ld1 {v0.4s-v3.4s}, [%0]\n ld2 {v4.4s, v5.4s}, [%0]\n ld3 {v0.8b, v1.8b, v2.8b}, [%0]\n"
                     "st4 {v0.4h, v1.4h, v2.4h, v3.4h}, [%0]\n ld1r {v3.2d}, [%0]\n ld1 {v2.s}[1], [%0]\n"
                     "st2 {v2.b, v3.b}[3], [%0]\n st1 {v0.16b, v1.16b}, [%0]\n prfm pldl1keep, [%0, #256]\n"
                     : : "r"(four) : "v0", "v1", "v2", "v3", "v4", "v5", "memory");
    __asm__ volatile("1: ldaxr %0, [%2]\n add %0, %0, #1\n stlxr %w1, %0, [%2]\n cbnz %w1, 1b\n"
                     "2: ldxp %0, x9, [%2]\n stxp %w1, %0, x9, [%2]\n cbnz %w1, 2b\n"
                     : "=&r"(old), "=&r"(other) : "r"(pair) : "x9", "memory");
    __asm__ volatile("ldadd %1, %0, [%2]\n ldaddal %w1, %w0, [%2]\n stadd %1, [%2]\n swpb %w1, %w0, [%2]\n"
                     "ldsmaxh %w1, %w0, [%2]\n cas %0, %1, [%2]\n casal %w0, %w1, [%2]\n ldar %0, [%2]\n stlr %0, [%2]\n"
                     "mov x10, #0\n mov x11, #0\n casp x10, x11, x10, x11, [%2]\n"
                     : "=&r"(old) : "r"(one), "r"(pair) : "x10", "x11", "memory");
    __asm__ volatile("dc zva, %0\n" : : "r"(zeroed + 40) : "memory");
    __asm__ volatile("ptrue p0.b\n ld1b {z1.b}, p0/z, [%0]\n ld1sh {z2.d}, p0/z, [%0]\n ld2w {z0.s, z1.s}, p0/z, [%0]\n"
                     "ld1rw {z3.s}, p0/z, [%0]\n st1w {z2.s}, p0, [%0, #1, mul vl]\n str z3, [%0, #2, mul vl]\n"
                     : : "r"(four) : "p0", "z0", "z1", "z2", "z3", "memory");
    total += sum(pages + 4080, 14) + (long)(four[3] * four[5] / 3.0f);
    total = total * 1000 / (count + 13);
    call(64, 1, "touched\n", 8);
    for (int i = 0; i < 20; i++) total ^= total << (i & 7);
    call(93, total & 1, 0, 0);
}
