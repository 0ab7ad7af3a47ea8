/* What gem5's text shows in an unusual way, in about a thousand instructions: first touches of pages, an access across
 * pages, system calls, string instructions, 16-byte and locked accesses, a division, calls.
 * gcc -O1 -static -nostdlib -fno-stack-protector -fno-tree-loop-distribute-patterns -o touch touch.c */
static float four[8] __attribute__((aligned(16)));
static long total;
static __attribute__((noinline)) long sum(const char *begin, int count) { return count ? *begin + sum(begin + 1, count - 1) : 0; }
static long call(long number, long first, const void *second, long third) {
    register long flags __asm__("r10") = 0x22, file __asm__("r8") = -1, offset __asm__("r9") = 0; /* of mmap */
    __asm__ volatile("syscall" : "+a"(number) : "D"(first), "S"(second), "d"(third), "r"(flags), "r"(file), "r"(offset)
                     : "rcx", "r11", "memory");
    return number;
}
void _start(void) {
    char *pages = (char *)call(9, 0, (const void *)(6 * 4096), 3), *to = pages + 4090;
    long count = 40;
    for (int page = 0; page < 3; page++) pages[page * 8192 % 20480] = (char)(page + 1);
    *(volatile long *)(pages + 3 * 4096 - 4) = 0x0102030405060708;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(7) : "memory");
    for (int i = 0; i < 8; i++) four[i] = (float)i;
    __asm__ volatile("movaps %0, %%xmm0\n addps %1, %%xmm0\n movaps %%xmm0, %0" : "+m"(four) : "m"(four[4]) : "xmm0");
    __asm__ volatile("lock addq %1, %0" : "+m"(total) : "r"(sum(pages + 4080, 30)) : "memory");
    call(1, 1, "touched\n", 8);
    total = total * 1000 / (count + 13);
    for (int i = 0; i < 60; i++) total ^= total << (i & 7);
    call(60, total & 1, 0, 0);
}
