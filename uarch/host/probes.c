/* Micro-benchmarks of one core. Reads a command a line, answers a line of numbers: times in cycles of a reference chain.
 *
 *   snippet K iterations repeats [bytes]      cycles an iteration of snippet K, on two buffers of so many bytes (65,536)
 *   windows K bytes iterations repeats        so, on two random cycles of pointers of so many bytes each
 *   pattern K length iterations repeats kind  so, on random bits (kind 0), zeros (1) or ones (2), repeated after `length`
 *   chase bytes stride huge steps repeats     cycles an access along a random cycle of pointers, one every `stride` bytes
 *   parallel bytes chains steps repeats       so, along `chains` cycles side by side
 *   bandwidth bytes kind repeats              bytes a cycle: kind 0 reads, 1 writes, 2 copies
 *   syscall kind repeats                      cycles of a system call (enum kind)
 *   clock repeats                             nanoseconds of a cycle
 *
 * The reference chain is of additions that wait for one another, a cycle each; it runs right before and after what is
 * measured, so that a clock that changes does not matter. Time is the thread's processor time, which other programs are
 * not in. The argument, where there is one, is the descriptor of a counter (counters.py): then all answers but those of
 * system calls, which are in the kernel, are what it counts, and the clock is that of the chain's counts.
 * `snippet_K` is one of the table that Python generates (snippets.py); its arguments are in
 * the C calling convention: two pointers, iterations, a mask.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    void *a, *b;
} pointers; /* rdi and rsi at the end */
typedef pointers (*snippet)(void *, void *, long, long);
extern const snippet snippets[];
extern const int snippet_count;
enum { REFERENCE_CHAIN = 200, REFERENCE = 0, LINE = 64, MOST_CHAINS = 64 };

static int counter = -1;

static double nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static double now(void) { /* nanoseconds, or what the counter counts */
    uint64_t count;
    if (counter < 0) return nanoseconds();
    return read(counter, &count, sizeof count) == sizeof count ? count : 0;
}

static double one_reference(void) {
    const long rounds = 400; /* 80,000 cycles */
    double counted = now(), begin = nanoseconds();
    snippets[REFERENCE](0, 0, rounds, 0);
    double time = nanoseconds() - begin;
    return time / (counter < 0 ? rounds * (double)REFERENCE_CHAIN : now() - counted);
}

static double reference(void) { /* nanoseconds of a cycle: what disturbs makes it longer, never shorter */
    double least = one_reference();
    for (int k = 0; k < 2; k++) {
        double again = one_reference();
        if (again < least) least = again;
    }
    return least;
}

static uint64_t seed = 88172645463325252u;
static uint64_t draw(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static size_t whole(size_t bytes) { /* with a huge page to spare */
    const size_t unit = 2 << 20;
    return (bytes + 2 * unit) / unit * unit;
}

static char *pages(size_t bytes, int huge) {
    char *memory = mmap(0, whole(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 0;
    madvise(memory, whole(bytes), huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return memory;
}

/* A random cycle through every `stride`-th address; with strides of a page or more, lines of all sets. */
static char *cycle(char *memory, size_t bytes, size_t stride) {
    size_t count = bytes / stride;
    if (count < 2) count = 2;
    uint32_t *order = malloc(sizeof *order * count);
    if (!order) return 0;
    for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (size_t i = count - 1; i > 0; i--) {
        size_t j = draw() % i;
        uint32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
#define PLACE(i) (memory + order[i] * stride + (stride > LINE ? order[i] * LINE % (stride & -stride) : 0))
    for (size_t i = 0; i < count; i++) *(char **)PLACE(i) = PLACE((i + 1) % count);
    char *start = PLACE(0);
    free(order);
    return start;
}

static void report_in(int repeats, double (*one)(void *), void *what, int counts) {
    for (int k = 0; k < repeats; k++) {
        double before = counts ? 1 : reference(), cost = one(what), after = counts ? 1 : reference();
        printf("%s%.6g", k ? " " : "", cost / (before < after ? before : after));
    }
    printf("\n");
    fflush(stdout);
}

static void report(int repeats, double (*one)(void *), void *what) { report_in(repeats, one, what, counter >= 0); }

struct call {
    snippet function;
    void *a, *b;
    long iterations, mask;
    int goes_on; /* along its pointers, where the run before ended */
};
static double of_call(void *what) {
    struct call *c = what;
    double begin = now();
    pointers end = c->function(c->a, c->b, c->iterations, c->mask);
    double time = now() - begin;
    if (c->goes_on) c->a = end.a, c->b = end.b;
    return time / c->iterations;
}

struct chase {
    char *heads[MOST_CHAINS];
    int chains;
    long steps;
};
static volatile uintptr_t kept;
static double of_chase(void *what) {
    struct chase *c = what;
    double begin = now();
    if (c->chains == 1) {
        char *p = c->heads[0];
        for (long k = 0; k < c->steps; k += 8)
            for (int u = 0; u < 8; u++) p = *(char *volatile *)p;
        c->heads[0] = p;
    } else {
        for (long k = 0; k < c->steps; k++)
            for (int u = 0; u < c->chains; u++) c->heads[u] = *(char *volatile *)c->heads[u];
    }
    double time = now() - begin;
    kept = (uintptr_t)c->heads[0];
    return time / ((double)c->steps * c->chains);
}

typedef uint64_t vector __attribute__((vector_size(32)));
struct stream {
    char *from, *to;
    size_t bytes;
    int kind, rounds;
};
static double of_stream(void *what) {
    struct stream *s = what;
    vector *from = (vector *)s->from, *to = (vector *)s->to;
    vector p = {0}, q = {0}, r = {0}, t = {0};
    size_t count = s->bytes / sizeof(vector);
    double begin = now();
    for (int round = 0; round < s->rounds; round++) {
        if (s->kind == 0)
            for (size_t i = 0; i + 4 <= count; i += 4)
                p += from[i], q += from[i + 1], r += from[i + 2], t += from[i + 3];
        else if (s->kind == 1)
            for (size_t i = 0; i + 4 <= count; i += 4)
                for (int u = 0; u < 4; u++) to[i + u] = (vector){i, 1, 2, 3};
        else
            for (size_t i = 0; i + 4 <= count; i += 4)
                for (int u = 0; u < 4; u++) to[i + u] = from[i + u];
        __asm__ volatile("" ::: "memory");
    }
    double time = now() - begin;
    kept = p[0] + q[1] + r[2] + t[3];
    return time / ((double)count * sizeof(vector) * s->rounds);
}

enum { CALLS = 128, MAPPED = 1 << 16, HEAP = 132 << 10, PAGE = 4096 }; /* HEAP: malloc's step */
enum kind { DEFAULT, READ, WRITE, OPEN, CLOSE, STAT, GETDENTS, MMAP, MUNMAP, MPROTECT, BRK, CLOCK, TOUCH };
struct calls {
    enum kind kind;
    const char *path;
    int file, files[CALLS];
    char *maps[CALLS];
};

static void call(struct calls *c, enum kind kind, int k) {
    static char buffer[PAGE];
    struct stat status;
    struct timespec t;
    switch (kind) {
    case DEFAULT: kept = (uintptr_t)syscall(SYS_getppid); break;
    case READ: kept = (uintptr_t)pread(c->file, buffer, PAGE, 0); break;
    case WRITE: kept = (uintptr_t)pwrite(c->file, buffer, PAGE, 0); break;
    case OPEN: c->files[k] = open(c->path, O_RDONLY); break;
    case CLOSE: close(c->files[k]); break;
    case GETDENTS: /* what is there, then that there is no more, as programs do */
        kept = (uintptr_t)syscall(SYS_getdents64, c->files[k / 2], buffer, PAGE);
        break;
    case STAT: kept = (uintptr_t)stat(c->path, &status); break;
    case MMAP: c->maps[k] = mmap(0, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); break;
    case MUNMAP: munmap(c->maps[k], MAPPED); break;
    case MPROTECT: mprotect(c->maps[0], PAGE, k % 2 ? PROT_READ | PROT_WRITE : PROT_READ); break;
    case BRK: kept = (uintptr_t)sbrk(HEAP); break;
    case CLOCK: kept = (uintptr_t)clock_gettime(CLOCK_MONOTONIC, &t); break;
    case TOUCH:
        for (int p = 0; p < MAPPED; p += PAGE) ((volatile char *)c->maps[k])[p] = 1;
    }
}

static void call_all(struct calls *c, enum kind kind) {
    for (int k = 0; k < CALLS; k++) call(c, kind, k);
}

/* Only calls of the kind are timed, one after another; what they need is made before, and undone behind them. */
static double of_system_call(void *what) {
    struct calls *c = what;
    enum kind kind = c->kind;
    if (kind == GETDENTS) c->path = "/";
    if (kind == CLOSE || kind == GETDENTS) call_all(c, OPEN);
    if (kind == MUNMAP || kind == MPROTECT || kind == TOUCH) call_all(c, MMAP);
    if (kind == MUNMAP || kind == MPROTECT) call_all(c, TOUCH);
    double begin = nanoseconds();
    call_all(c, kind);
    double time = (nanoseconds() - begin) / CALLS;
    if (kind == OPEN || kind == GETDENTS) call_all(c, CLOSE);
    if (kind == MMAP || kind == MPROTECT || kind == TOUCH) call_all(c, MUNMAP);
    if (kind == BRK) sbrk(-(CALLS * HEAP));
    return time;
}

int main(int count, char **arguments) {
    char line[256], word[32];
    setvbuf(stdout, 0, _IOLBF, 0);
    if (count > 1) counter = atoi(arguments[1]);
    double end = nanoseconds() + 5e7; /* the clock has risen by then */
    while (nanoseconds() < end) reference();
    while (fgets(line, sizeof line, stdin)) {
        long a = 0, b = 0, c = 0, d = 0, e = 0;
        if (sscanf(line, "%31s %ld %ld %ld %ld %ld", word, &a, &b, &c, &d, &e) < 1) continue;
        if (!strcmp(word, "snippet") && a >= 0 && a < snippet_count) {
            size_t bytes = d ? d : 1 << 16;
            struct call call = {snippets[a], pages(bytes, 1), pages(bytes, 1), b, 0};
            if (!call.a || !call.b) { printf("\n"); continue; }
            memset(call.a, 0, bytes);
            memset(call.b, 0, bytes);
            of_call(&call);
            report((int)c, of_call, &call);
            munmap(call.a, whole(bytes)), munmap(call.b, whole(bytes));
        } else if (!strcmp(word, "windows") && a >= 0 && a < snippet_count) {
            static char *one, *two;
            static long size;
            if (size != b) {
                one = cycle(pages(b, 1), b, 4 * LINE);
                two = cycle(pages(b, 1), b, 4 * LINE);
                size = b;
            }
            static char *scratch;
            if (!scratch) memset(scratch = pages(1 << 16, 1), 0, 1 << 16);
            struct call call = {snippets[a], one, two, c, (long)scratch, 1};
            report((int)d, of_call, &call);
            one = call.a, two = call.b;
        } else if (!strcmp(word, "pattern") && a >= 0 && a < snippet_count) {
            char *bits = malloc(b);
            for (long k = 0; k < b; k++) bits[k] = e == 0 ? draw() >> 40 & 1 : e == 2;
            struct call call = {snippets[a], 0, bits, c, b - 1};
            of_call(&call);
            report((int)d, of_call, &call);
            free(bits);
        } else if (!strcmp(word, "chase")) {
            char *memory = pages(a + 2 * b, (int)c);
            if (!memory) { printf("\n"); continue; }
            struct chase chase = {{cycle(memory, a, b)}, 1, d};
            if (!chase.heads[0]) { printf("\n"); continue; }
            of_chase(&chase);
            report((int)e, of_chase, &chase);
            munmap(memory, a);
        } else if (!strcmp(word, "parallel") && b <= MOST_CHAINS) {
            char *memory = pages(a, 1);
            if (!memory) { printf("\n"); continue; }
            struct chase chase = {{0}, (int)b, c};
            chase.heads[0] = cycle(memory, a, LINE);
            for (int k = 1; k < b; k++) { /* so many steps behind one another that none meets another's lines */
                chase.heads[k] = chase.heads[k - 1];
                for (long s = 0; s < a / LINE / b; s++) chase.heads[k] = *(char **)chase.heads[k];
            }
            report((int)d, of_chase, &chase);
            munmap(memory, a);
        } else if (!strcmp(word, "bandwidth")) {
            struct stream s = {pages(a, 1), pages(a, 1), a, (int)b, (int)((64 << 20) / a + 1)};
            if (!s.from || !s.to) { printf("\n"); continue; }
            memset(s.from, 1, a);
            memset(s.to, 1, a);
            of_stream(&s);
            report((int)c, of_stream, &s);
            munmap(s.from, a), munmap(s.to, a);
        } else if (!strcmp(word, "syscall") && a >= DEFAULT && a <= TOUCH) {
            struct calls calls = {(enum kind)a, arguments[0], (int)syscall(SYS_memfd_create, "perfvec", 0), {0}, {0}};
            call(&calls, WRITE, 0);
            of_system_call(&calls);
            report_in((int)b, of_system_call, &calls, 0);
            close(calls.file);
        } else if (!strcmp(word, "clock")) {
            for (int k = 0; k < a; k++) printf("%s%.6g", k ? " " : "", reference());
            printf("\n");
        } else {
            printf("\n");
        }
        fflush(stdout);
    }
    return 0;
}
