/* Freestanding, on three instruction sets: 400 times read, 200 write, 100 brk, 50 getppid, and exit; each with work. */
#if defined __x86_64__
enum { READ = 0, WRITE = 1, BRK = 12, EXIT = 60, GETPPID = 110 };
static long call(long number, long first) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(first), "S"(0), "d"(0) : "rcx", "r11", "memory");
    return result;
}
#else
enum { READ = 63, WRITE = 64, EXIT = 93, GETPPID = 173, BRK = 214 };
static long call(long number, long first) {
#if defined __aarch64__
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = first, x1 __asm__("x1") = 0, x2 __asm__("x2") = 0;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#else
    register long a7 __asm__("a7") = number, a0 __asm__("a0") = first, a1 __asm__("a1") = 0, a2 __asm__("a2") = 0;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
    return a0;
#endif
}
#endif

static volatile long work;

static void calls(long number, long times) {
    for (long k = 0; k < times; k++) {
        call(number, number == BRK ? 0 : -1);
        for (long n = 0; n < 40; n++) work += n;
    }
}

void _start(void) {
    calls(READ, 400);
    calls(WRITE, 200);
    calls(BRK, 100);
    calls(GETPPID, 50);
    call(EXIT, 0);
}
