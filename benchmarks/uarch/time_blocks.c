// Times basic blocks of x86-64 on this computer: a line of standard input is a block's bytes in hexadecimal, a line of
// output the cycles of one copy of it, or "-" where it cannot be run.
//
// A block is run as so many copies one behind another, and again as more; the difference counts. Registers point to pages
// of their own; a page is mapped where the block first faults, and filled with a pointer (Chen et al., "BHive", 2019).
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <x86intrin.h>

#ifndef COPIES
#define COPIES 100
#endif
enum { FEW = COPIES, MANY = 4 * COPIES, REPEATS = 200, PAGE = 4096, PAGES = 64, LONGEST = 1024, CODE_BYTES = 1 << 20 };
enum { DENORMALS_ARE_ZERO = 0x9fc0 };
static uint8_t *const code = (uint8_t *)0x200000000000;
static volatile uint64_t *const told = (uint64_t *)0x210000000000;  // stack pointer, begin and end
static const uint64_t registers = 0x12340800, apart = 0x2040, pointer = 0x33330840;

static sigjmp_buf refused;
static uint8_t *pages[PAGES];
static int mapped;

static void fill(uint8_t *page) {
    for (int k = 0; k < PAGE / 8; k++) ((uint64_t *)page)[k] = pointer;
}

static void on_fault(int number, siginfo_t *about, void *context) {
    (void)context;
    uint8_t *page = (uint8_t *)((uintptr_t)about->si_addr & -(uintptr_t)PAGE);
    const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (number == SIGSEGV && about->si_code == SEGV_MAPERR && mapped < PAGES && (uintptr_t)page > 1 << 16 &&
        mmap(page, PAGE, PROT_READ | PROT_WRITE, how, -1, 0) == page) {
        fill(pages[mapped++] = page);
        return;
    }
    siglongjmp(refused, 1);
}

static uint8_t *at;
static void put(const void *bytes, size_t size) { at = (uint8_t *)memcpy(at, bytes, size) + size; }
#define PUT(bytes) put(bytes, sizeof bytes - 1)

static void put_constant(int which, uint64_t value) {
    const uint8_t move[] = {0x48 | which >> 3, 0xb8 | (which & 7)};  // mov which, value
    put(move, sizeof move), put(&value, sizeof value);
}

static void put_clock(const char *store) {
    PUT("\x0f\xae\xe8\x0f\x31\x0f\xae\xe8");  // lfence; rdtsc; lfence
    PUT("\x48\xc1\xe2\x20\x48\x09\xd0");      // shl rdx, 32; or rax, rdx
    put_constant(1, (uintptr_t)told);
    put(store, 4);
}

static void build(const uint8_t *block, size_t size, int copies) {
    mprotect(code, CODE_BYTES, PROT_READ | PROT_WRITE);
    at = code;
    PUT("\x53\x55\x41\x54\x41\x55\x41\x56\x41\x57");  // push rbx, rbp, r12 to r15
    put_constant(0, (uintptr_t)told);
    PUT("\x48\x89\x20\xc5\xfc\x77");  // mov [rax], rsp; vzeroall
    put_clock("\x48\x89\x41\x08");    // mov [rcx + 8], rax
    for (int which = 0; which < 16; which++) put_constant(which, registers + apart * which);
    PUT("\x0f\xae\xe8");
    while ((uintptr_t)at & 63) PUT("\x90");
    for (int copy = 0; copy < copies; copy++) put(block, size);
    put_clock("\x48\x89\x41\x10");                                // mov [rcx + 16], rax
    PUT("\x48\x8b\x21\x41\x5f\x41\x5e\x41\x5d\x41\x5c\x5d\x5b");  // mov rsp, [rcx]; pop r15 to r12, rbp, rbx
    PUT("\xfc\xc5\xf8\x77\xc3");                                  // cld; vzeroupper; ret
    mprotect(code, CODE_BYTES, PROT_READ | PROT_EXEC);
}

static int order(const void *a, const void *b) {
    const double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

// Ticks of so many copies: the mean of the quicker half, for the clock's ticks are coarse.
static double ticks(const uint8_t *block, size_t size, int copies) {
    double found[REPEATS], sum = 0;
    build(block, size, copies);
    for (int k = -4; k < REPEATS; k++) {
        for (int page = 0; page < mapped; page++) fill(pages[page]);
        ((void (*)(void))code)();
        if (k >= 0) found[k] = (double)(told[2] - told[1]);
    }
    qsort(found, REPEATS, sizeof *found, order);
    for (int k = 0; k < REPEATS / 2; k++) sum += found[k];
    return sum / (REPEATS / 2);
}

// Ticks of a cycle: of additions that wait for one another.
static double cycle(void) {
    uint64_t least = UINT64_MAX;
    for (int k = 0; k < 9; k++) {
        long rounds = 3000;
        const uint64_t begin = __rdtsc();
        __asm__ volatile("1: add $-1, %0\n add $-1, %0\n add $1, %0\n jnz 1b" : "+r"(rounds));
        const uint64_t taken = __rdtsc() - begin;
        least = taken < least ? taken : least;
    }
    return least / 9000.0;
}

static double cycles(const uint8_t *block, size_t size) {
    double best = 1e9;
    for (int k = 0; k < 3; k++) {
        const double before = cycle(), many = ticks(block, size, MANY), few = ticks(block, size, FEW), after = cycle();
        const double found = (many - few) / (MANY - FEW) / (before < after ? before : after);
        if (found > 0 && found < best) best = found;
    }
    return best;
}

int main(void) {
    const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (mmap(code, CODE_BYTES, PROT_READ | PROT_WRITE, how, -1, 0) != (void *)code) return 1;
    if (mmap((void *)told, PAGE, PROT_READ | PROT_WRITE, how, -1, 0) != (void *)told) return 1;
    const stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&stack, NULL);
    const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    for (int k = 0; k < 5; k++) sigaction(numbers[k], &action, NULL);
    setlinebuf(stdout);  // an answer is read before the next block is written
    static char line[2 * LONGEST + 2];
    static uint8_t block[LONGEST];
    while (fgets(line, sizeof line, stdin)) {
        size_t size = 0;
        for (unsigned byte; size < LONGEST && sscanf(line + 2 * size, "%2x", &byte) == 1; size++) block[size] = byte;
        while (mapped > 0) munmap(pages[--mapped], PAGE);
        _mm_setcsr(DENORMALS_ARE_ZERO);
        if (sigsetjmp(refused, 1))
            puts("-");
        else
            printf("%.3f\n", cycles(block, size));
    }
}
