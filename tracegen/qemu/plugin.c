/* A QEMU TCG plugin that records executed blocks and memory accesses of a user-mode program.
 *
 * It writes, in the folder given as dir=, through shared file mappings, so that nothing is lost however the program
 * ends (_exit, a signal, exec), and no file descriptor stays open that the program could close:
 *
 *   thread.K    one stream of u64 words per traced thread, through a ring of slots that a reader empties while the
 *               program runs (struct ring); the program waits where the reader is behind. A zero word ends the stream.
 *               0x1 << 62 | number   a block starts
 *               0x1 << 63 | index << 54 | shift << 51 | store << 50 | address   instruction `index` of the block has
 *                                    accessed 1 << shift bytes
 *               0x3 << 60            the next word is the full address of the access word that follows it
 *               0x2 << 60 | n        of the block that runs, only the first n instructions belong to the record
 *               0x1 << 60 | n        of the block that follows, the first n instructions do not belong to the record
 *               0x1 << 59 | number   the last instruction of the block that runs is the system call `number`, at most 65535
 *               0x1 << 58 | index << 8 | steps    instruction `index` of the block has divided, in so many of gem5's steps
 *                                    The access of a prefetch has shift 7, and may come late: after a later instruction's
 *   blocks      one descriptor per translated block: u64 number + 1, u64 count, then count times
 *               { u64 address, u8 code[16] }; none crosses a multiple of BLOCK_BYTES, zeros fill up to there
 *   maps        text: "base HEX", then the lines of /proc/self/maps that name files; again whenever code runs elsewhere
 *   handlers    text: "signal HEX-address" for each handler that the program installs
 *   replaced    path of the program that the traced one has become by exec
 *   stopped     exists when the plugin ended the program because of max= or times=
 *   unrecorded  struct unrecorded: how many threads and children of the program have no record
 *   sites       struct sites: where regions begin and end. The reader looks there up in files that the program has mapped
 *
 * Arguments: dir=FOLDER, isa=NAME, skip=N, max=N (0: no limit), threads=on, reader=PID, region=between|function,
 * from-start=on (the first region begins with the program), times=N (passages of the region, 0: no limit), zeroed=N
 * (bytes that AArch64's dc zva stores, which QEMU does not tell).
 *
 * The QEMU plugin interface is declared below, as distributions do not package its header. PLUGIN_API is the version
 * to announce; nothing that is used here has changed between versions 1 and 6.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "operands.h"

#ifndef PLUGIN_API
#error "define PLUGIN_API as the version of QEMU's plugin interface"
#endif

/* ---- QEMU's side ---- */

#define EXPORT __attribute__((visibility("default")))
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct qemu_info_t qemu_info_t;
enum { CB_NO_REGS = 0 };
enum { MEM_R = 1, MEM_W = 2, MEM_RW = 3 };

typedef void (*tb_trans_cb)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*vcpu_udata_cb)(unsigned int, void *);
typedef void (*vcpu_simple_cb)(qemu_plugin_id_t, unsigned int);
typedef void (*vcpu_mem_cb)(unsigned int, qemu_plugin_meminfo_t, uint64_t, void *);
typedef void (*vcpu_syscall_cb)(qemu_plugin_id_t, unsigned int, int64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                uint64_t, uint64_t, uint64_t, uint64_t);
typedef void (*vcpu_syscall_ret_cb)(qemu_plugin_id_t, unsigned int, int64_t, int64_t);

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, tb_trans_cb);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, vcpu_udata_cb, int, void *);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, vcpu_udata_cb, int, void *);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, vcpu_mem_cb, int, int, void *);
extern void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, vcpu_simple_cb);
extern void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, vcpu_syscall_cb);
extern void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t, vcpu_syscall_ret_cb);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
extern char *qemu_plugin_insn_disas(const struct qemu_plugin_insn *);
extern unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
extern bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);

EXPORT int qemu_plugin_version = PLUGIN_API;

/* ---- Files ---- */

static char folder[4096];

/* Map `size` bytes at `offset` of the file `name`; NULL where the disk is full or the program left our file system. */
static void *map_file(const char *name, size_t offset, size_t size)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return NULL;
    }
    int error;
    do { /* reserve the space: a mapped hole would raise SIGBUS on a full disk */
        error = posix_fallocate(fd, (off_t)offset, (off_t)size);
    } while (error == EINTR);
    void *at = MAP_FAILED;
    if (error == 0) {
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    }
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static void append_text(const char *name, const char *text, size_t length)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        return;
    }
    while (length > 0) {
        ssize_t written = write(fd, text, length);
        if (written <= 0) {
            break;
        }
        text += written;
        length -= (size_t)written;
    }
    close(fd);
}

/* ---- State ---- */

#define SLOT_WORDS ((size_t)1 << 17)
#define MAIN_SLOTS 32
#define OTHER_SLOTS 4
#define SCRATCH_WORDS ((size_t)1 << 13)
#define BLOCK_BYTES ((size_t)4 << 20)
#define MAX_VCPUS 4096
#define MAX_WAITING 16
#define MAX_BLOCK 512 /* instructions; QEMU's limit */

#define BLOCK ((uint64_t)1 << 62)
#define ACCESS ((uint64_t)1 << 63)
#define LONG_ADDRESS ((uint64_t)3 << 60)
#define ONLY_FIRST ((uint64_t)2 << 60)
#define WITHOUT_FIRST ((uint64_t)1 << 60)
#define SYSTEM_CALL ((uint64_t)1 << 59)
#define DIVISION ((uint64_t)1 << 58)
#define ADDRESS_BITS 50
#define NUMBER (((uint64_t)1 << ADDRESS_BITS) - 1) /* in what an access is told with: its block's number */
#define PREFETCH ((uint64_t)7 << 51)
#define STORE_OF_64 ((uint64_t)6 << 51 | (uint64_t)1 << ADDRESS_BITS)

/* The first page of thread.K; the slots follow it. */
struct ring {
    uint64_t slots;       /* how many there are */
    uint64_t ready;       /* set last, when recording starts */
    uint64_t filled;      /* slots filled so far */
    uint64_t emptied;     /* slots that the reader has read and zeroed */
    uint64_t failed;      /* recording ended early: the disk is full */
    uint64_t unused[507];
};

/* Run-time addresses where regions begin and end; the reader answers when new files are mapped. */
#define MAX_SITES 255
struct sites {
    uint64_t asked, answered;
    uint64_t from_count, to_count;
    uint64_t from[MAX_SITES], to[MAX_SITES];
};

struct unrecorded {
    uint64_t threads, children;
};

struct thread {
    uint64_t *next, *end; /* where the next word goes */
    uint64_t *ring_next, *ring_end; /* the same, while nothing is recorded */
    struct ring *ring;
    char name[32];
    bool recording;     /* words go to the ring; else to scratch */
    bool watching;      /* skip, max or a region is to be watched */
    bool is_main;
    uint8_t waiting;    /* entries of `waits_for` */
    uint8_t agreed;     /* accesses that were where the registers say, before they were believed */
    uint32_t agreed_on; /* the registers that told, a bit each */
    const uint64_t *registers, *candidate; /* of the guest, once they are believed; before that */
    uint64_t number; /* of the block that runs */
    const struct operation *waits_for[MAX_WAITING]; /* operations of which the operands are told later in their block */
    uint64_t skip_left; /* instructions */
    uint64_t budget;    /* instructions to record, 0: no limit */
    uint64_t repeating; /* address of the rep-prefixed instruction that ended the last block, 0: none */
    const struct block *block; /* the last one, where regions are watched */
    uint64_t passages;  /* of the region */
    uint64_t *returns;  /* return addresses of the functions that run, where a region is a function */
    size_t depth, capacity;
    size_t entry_depth; /* when the region was entered */
    uint64_t scratch[SCRATCH_WORDS];
};

enum ending { OTHER, CALL, RETURN };

struct block {
    uint64_t word;
    uint64_t count;
    uint64_t address, end; /* of its first instruction, and after its last one */
    enum ending ending;
    uint64_t first_repeat; /* address of the first instruction if it is rep-prefixed, else 0 */
    uint64_t last_repeat;  /* the same of the last one */
};

static struct thread *threads[MAX_VCPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool all_threads, forked;
static enum { X86_64, AARCH64, RISCV64 } isa;
static enum { WHOLE, BETWEEN, FUNCTION } region;
static struct sites *sites;
static struct unrecorded *unrecorded;
static bool from_start; /* the region begins where the program does */
static uint64_t skip, max, times, zeroed, guest_base;
static pid_t reader;
static unsigned streams;

static char *block_part;
static size_t block_used = BLOCK_BYTES, block_parts;
static uint64_t block_number;

/* Over-recorded so that the reader can cut at exactly max even after blocks that a signal left early. */
#define MARGIN 65536

static void discard(struct thread *t)
{
    t->recording = false;
    t->next = t->scratch;
    t->end = t->scratch + SCRATCH_WORDS;
}

static uint64_t *slot_start(struct ring *ring, uint64_t number)
{
    return (uint64_t *)(ring + 1) + (number % ring->slots) * SLOT_WORDS;
}

/* Nobody will read what a reader that was killed has asked for. */
static void end_with_reader(void)
{
    if (kill(reader, 0) != 0 && errno == ESRCH) {
        _exit(1);
    }
}

/* Make room: the next slot, or again the start of scratch. */
static __attribute__((noinline)) void refill(struct thread *t)
{
    if (!t->recording) {
        t->next = t->scratch;
        return;
    }
    struct ring *ring = t->ring;
    uint64_t filled = ring->filled + 1;
    __atomic_store_n(&ring->filled, filled, __ATOMIC_RELEASE);
    while (filled - __atomic_load_n(&ring->emptied, __ATOMIC_ACQUIRE) >= ring->slots) {
        end_with_reader();
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    t->next = slot_start(ring, filled);
    t->end = t->next + SLOT_WORDS;
}

static inline void put(struct thread *t, uint64_t word)
{
    if (__builtin_expect(t->next == t->end, 0)) {
        refill(t);
    }
    *t->next++ = word;
}

static void fail(struct thread *t)
{
    if (t->ring != NULL) {
        __atomic_store_n(&t->ring->failed, 1, __ATOMIC_RELEASE);
    }
    t->watching = false;
    discard(t);
}

/* Record from now on, but not the first `without` instructions of the block that follows. */
static void start(struct thread *t, uint64_t without)
{
    if (t->ring == NULL) {
        return;
    }
    t->recording = true;
    t->next = t->ring_next;
    t->end = t->ring_end;
    if (without) {
        put(t, WITHOUT_FIRST | without);
    }
    __atomic_store_n(&t->ring->ready, 1, __ATOMIC_RELEASE);
}

static __attribute__((noreturn)) void stop_program(const char *why)
{
    append_text("stopped", why, strlen(why));
    _exit(0);
}

/* ---- Regions ---- */

static void enter_region(struct thread *t, const struct block *b, uint64_t index)
{
    if (t->recording || t->ring == NULL || (times && t->passages == times)) {
        return;
    }
    start(t, index);
    put(t, b->word);
    t->entry_depth = t->depth;
    if (t->budget) {
        t->budget -= t->budget > b->count - index ? b->count - index : t->budget - 1;
    }
}

/* The first `count` instructions of block b were the region's last. */
static void leave_region(struct thread *t, const struct block *b, uint64_t count)
{
    put(t, ONLY_FIRST | count);
    t->ring_next = t->next;
    t->ring_end = t->end;
    discard(t);
    if (t->budget) {
        t->budget += b->count - count;
    }
    if (++t->passages == times && t->is_main) {
        stop_program("times\n");
    }
}

/* Keep the stack of return addresses: where the one of the region's function is popped, the function has returned. */
static void follow_calls(struct thread *t, const struct block *b)
{
    const struct block *last = t->block;
    if (last == NULL || last->ending == OTHER) {
        return;
    }
    if (last->ending == CALL) {
        if (t->depth == t->capacity) {
            size_t capacity = t->capacity ? 2 * t->capacity : 1024;
            uint64_t *returns = realloc(t->returns, capacity * sizeof *returns);
            if (returns == NULL) {
                return;
            }
            t->returns = returns;
            t->capacity = capacity;
        }
        t->returns[t->depth++] = last->end;
        return;
    }
    /* Below the top where frames were left by longjmp or an exception; nowhere after a signal handler. */
    for (size_t d = t->depth; d > 0; d--) {
        if (t->returns[d - 1] == b->address) {
            t->depth = d - 1;
            break;
        }
    }
    if (t->recording && t->depth < t->entry_depth) {
        leave_region(t, last, last->count);
    }
}

struct site {
    const struct block *block;
    uint64_t index;
    bool from, to;
};

static void on_site(unsigned int vcpu, void *data)
{
    struct thread *t = vcpu < MAX_VCPUS ? threads[vcpu] : NULL;
    const struct site *site = data;
    if (t == NULL) {
        return;
    }
    if (site->to && t->recording) {
        leave_region(t, site->block, site->index);
    }
    if (site->from) {
        enter_region(t, site->block, site->index);
    }
}

static bool among(const uint64_t *addresses, uint64_t count, uint64_t address)
{
    for (uint64_t i = 0; i < count && i < MAX_SITES; i++) {
        if (addresses[i] == address) {
            return true;
        }
    }
    return false;
}

static void watch_site(struct qemu_plugin_insn *insn, const struct block *b, uint64_t index)
{
    uint64_t address = qemu_plugin_insn_vaddr(insn);
    bool from = among(sites->from, sites->from_count, address), to = among(sites->to, sites->to_count, address);
    if (!from && !to) {
        return;
    }
    struct site *site = malloc(sizeof *site);
    if (site != NULL) {
        *site = (struct site){b, index, from, to};
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_site, CB_NO_REGS, site);
    }
}

/* Have the reader look for the region's symbols in the files that are mapped now. */
static void ask_for_sites(void)
{
    uint64_t asked = sites->asked + 1;
    __atomic_store_n(&sites->asked, asked, __ATOMIC_RELEASE);
    while (__atomic_load_n(&sites->answered, __ATOMIC_ACQUIRE) != asked) {
        end_with_reader();
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
}

static enum ending x86_ending(const uint8_t *code, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        uint8_t c = code[i];
        if (c == 0xF2 || c == 0xF3 || c == 0x66 || c == 0x2E || c == 0x3E || (c & 0xF0) == 0x40) {
            continue;
        }
        if (c == 0xE8 || (c == 0xFF && i + 1 < length && (code[i + 1] >> 3 & 7) == 2)) {
            return CALL;
        }
        return c == 0xC2 || c == 0xC3 ? RETURN : OTHER;
    }
    return OTHER;
}

static bool is_link(uint32_t reg) /* RISC-V unprivileged specification, table 3: x1 and x5 */
{
    return reg == 1 || reg == 5;
}

static enum ending riscv_ending(uint32_t word)
{
    uint32_t rd = word >> 7 & 31, rs1 = word >> 15 & 31;
    if ((word & 3) != 3) { /* c.jr, c.jalr */
        if ((word & 0xE07F) == 0x8002 && rd != 0) {
            return word & 0x1000 ? CALL : is_link(rd) ? RETURN : OTHER;
        }
        return OTHER;
    }
    if ((word & 0x7F) == 0x6F || (word & 0x7F) == 0x67) { /* jal, jalr */
        return is_link(rd) ? CALL : (word & 0x7F) == 0x67 && is_link(rs1) ? RETURN : OTHER;
    }
    return OTHER;
}

static enum ending ending_of(const uint8_t *code, size_t length)
{
    uint32_t word;
    memcpy(&word, code, sizeof word);
    if (isa == X86_64) {
        return x86_ending(code, length);
    }
    if (isa == RISCV64) {
        return riscv_ending(word);
    }
    if ((word & 0xFC000000) == 0x94000000 || (word & 0xFEFFF000) == 0xD63F0000) { /* bl; blr, blraa, blrab, … */
        return CALL;
    }
    return (word & 0xFFFFF000) == 0xD65F0000 ? RETURN : OTHER; /* ret, retaa, retab */
}

/* ---- Threads ---- */

static struct thread *open_thread(bool is_main)
{
    struct thread *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    discard(t);
    snprintf(t->name, sizeof t->name, "thread.%u", streams++);
    size_t slots = is_main ? MAIN_SLOTS : OTHER_SLOTS;
    t->ring = map_file(t->name, 0, sizeof *t->ring + slots * SLOT_WORDS * sizeof(uint64_t));
    if (t->ring == NULL) {
        return t;
    }
    t->ring->slots = slots;
    t->is_main = is_main;
    t->skip_left = skip;
    t->budget = max ? max + MARGIN : 0;
    t->ring_next = slot_start(t->ring, 0);
    t->ring_end = t->ring_next + SLOT_WORDS;
    t->watching = skip || max || region != WHOLE;
    if (!skip && (region == WHOLE || from_start)) {
        start(t, 0);
    }
    return t;
}

/* Watch skip and max before a block is executed; inside a region, max only. */
static void count(struct thread *t, const struct block *b)
{
    /* A block that goes on with the rep-prefixed instruction of the last one does not execute a new instruction. */
    uint64_t again = b->first_repeat != 0 && b->first_repeat == t->repeating;
    uint64_t fresh = b->count - again;
    t->repeating = b->last_repeat;
    if (!t->recording) {
        if (t->skip_left >= fresh) {
            t->skip_left -= fresh;
            return;
        }
        fresh -= t->skip_left;
        start(t, t->skip_left + again);
        t->skip_left = 0;
        if (!t->budget) {
            t->watching = false;
        }
    }
    if (t->budget) {
        if (t->budget > fresh) {
            t->budget -= fresh;
            return;
        }
        if (t->is_main) {
            stop_program("max\n");
        }
        t->watching = false;
        discard(t);
    }
}

static __attribute__((noinline)) void watch(struct thread *t, const struct block *b)
{
    if (region == WHOLE) {
        count(t, b);
        return;
    }
    if (region == FUNCTION) {
        follow_calls(t, b);
    }
    t->block = b;
    if (t->recording && t->budget) {
        count(t, b);
    }
}

/* ---- Registers ----
 *
 * QEMU 7.2's interface does not tell them. But the code that it generates keeps the address of the guest's processor in
 * a host register, and calls back from there; general registers come first in it. As nobody promises that, a thread
 * believes it only when AGREEING plain accesses in a row were where these registers say. One that is elsewhere before,
 * and nothing is believed in the whole run: quotients, prefetched and zeroed addresses stay unknown.
 *
 * QEMU writes a register back to where we see it only where that may be needed: at the end of a block, at an access
 * before it, and around a division, which is a function of QEMU's own. An operand is taken where it is exact.
 */

#define AGREEING 8
#ifndef DISPLACED
#define DISPLACED 0 /* bytes; for tests: what is read is then something else */
#endif

struct operation {
    uint64_t word;
    struct operand operand; /* of a prefetch, or of what is zeroed */
    uint8_t divides;        /* bytes of the quotient; 0: it does not */
    bool is_signed, zeroes;
};

struct special_access {
    uint64_t word;
    struct operand operand;
    bool tells; /* that the registers are what they seem */
};

static bool disbelieved;
static unsigned places_that_tell;

static inline void put_access(struct thread *t, uint64_t word, uint64_t address)
{
    if (__builtin_expect(address >> ADDRESS_BITS != 0, 0)) {
        put(t, LONG_ADDRESS);
        put(t, address);
        address = 0;
    }
    put(t, word | address);
}

static void tell(struct thread *t, const struct operation *o)
{
    if (t->registers == NULL || disbelieved) {
        return;
    }
    if (o->divides) {
        put(t, o->word | divide_steps(t->registers[RAX], o->divides, o->is_signed));
    } else if (o->zeroes) {
        uint64_t at = address_of(&o->operand, t->registers) & ~(zeroed - 1);
        for (uint64_t done = 0; done < zeroed; done += 64) {
            put_access(t, o->word, at + done);
        }
    } else {
        put_access(t, o->word, address_of(&o->operand, t->registers));
    }
}

static __attribute__((noinline)) void tell_waiting(struct thread *t)
{
    for (uint8_t i = 0; i < t->waiting; i++) {
        tell(t, t->waits_for[i]);
    }
    t->waiting = 0;
}

static void on_operation(unsigned int vcpu, void *data)
{
    struct thread *t = vcpu < MAX_VCPUS ? threads[vcpu] : NULL;
    if (t != NULL) {
        tell(t, data);
    }
}

static void on_operation_that_waits(unsigned int vcpu, void *data)
{
    struct thread *t = vcpu < MAX_VCPUS ? threads[vcpu] : NULL;
    if (t != NULL && t->waiting < MAX_WAITING) {
        t->waits_for[t->waiting++] = data;
    }
}

/* An access at `address` is to show whether `state` is the guest's processor. Copied by the kernel: it may be anything. */
static void compare(struct thread *t, const struct operand *operand, uint64_t address, const char *state)
{
    const uint64_t *at = (const uint64_t *)(state + DISPLACED + (isa == AARCH64 ? 16 * sizeof(uint32_t) : 0));
    uint64_t copy[32];
    size_t size = (isa == X86_64 ? 16 : 32) * sizeof *copy;
    struct iovec here = {copy, size}, there = {(void *)(uintptr_t)at, size};
    if ((t->candidate != NULL && at != t->candidate) ||
        process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)size || address_of(operand, copy) != address) {
        disbelieved = true;
        return;
    }
    t->candidate = at;
    t->agreed_on |= registers_of(operand);
    if (++t->agreed >= AGREEING && (t->agreed_on & (t->agreed_on - 1)) != 0) {
        t->registers = at;
    }
    t->agreed -= t->agreed > AGREEING;
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);

/* `state` is what QEMU's code has in the register that it keeps the guest's processor in. */
__attribute__((used, visibility("hidden"))) void special_access(unsigned int vcpu, qemu_plugin_meminfo_t info,
                                                                uint64_t address, void *data, const char *state)
{
    const struct special_access *a = data;
    struct thread *t = vcpu < MAX_VCPUS ? threads[vcpu] : NULL;
    if (t == NULL || (a->word & NUMBER) != t->number) {
        return;
    }
    if (a->tells && t->registers == NULL && !disbelieved) {
        compare(t, &a->operand, address, state);
    }
    tell_waiting(t);
    on_access(vcpu, info, address, (void *)(uintptr_t)a->word);
}

extern __attribute__((visibility("hidden"))) void on_special_access(unsigned int, qemu_plugin_meminfo_t, uint64_t, void *);
#if defined(__x86_64__) && defined(__LP64__)
#define KNOWS_STATE 1
__asm__(".text\n.hidden on_special_access\n.globl on_special_access\n.type on_special_access, @function\n"
        "on_special_access:\n  mov %rbp, %r8\n  jmp special_access\n"
        ".size on_special_access, . - on_special_access\n");
#elif defined(__aarch64__)
#define KNOWS_STATE 1
__asm__(".text\n.hidden on_special_access\n.globl on_special_access\n.type on_special_access, %function\n"
        "on_special_access:\n  mov x4, x19\n  b special_access\n"
        ".size on_special_access, . - on_special_access\n");
#else
#define KNOWS_STATE 0
#endif

/* ---- Callbacks ---- */

static void on_block(unsigned int vcpu, void *data)
{
    struct thread *t = vcpu < MAX_VCPUS ? threads[vcpu] : NULL;
    if (t == NULL) {
        return;
    }
    const struct block *b = data;
    t->number = b->word & NUMBER;
    if (__builtin_expect(t->watching | t->waiting, 0)) {
        tell_waiting(t); /* of the block before */
        if (t->watching) {
            watch(t, b);
        }
    }
    put(t, b->word);
}

/* QEMU itself fills the frame of a signal handler, and reads it again. It may use functions that tell of accesses, and
 * where the last instruction that used them has left its block, they tell them as its own: of a block that does not run. */
static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct thread *t = vcpu < MAX_VCPUS ? threads[vcpu] : NULL;
    uint64_t told = (uint64_t)(uintptr_t)data;
    if (t == NULL || (told & NUMBER) != t->number) {
        return;
    }
    uint64_t word = (told & ~NUMBER) | (uint64_t)qemu_plugin_mem_size_shift(info) << 51 |
                    (uint64_t)qemu_plugin_mem_is_store(info) << ADDRESS_BITS;
    put_access(t, word, address);
}

struct range {
    uint64_t start, end;
};
struct ranges {
    struct range *list;
    size_t count, capacity;
};

/* Host addresses of mappings, from the last look at /proc/self/maps; those of QEMU itself, before it loads a program. */
static struct ranges ranges, emulator;
static unsigned snapshots;
static bool maps_changed;

static const struct range *find_range(const struct ranges *among_these, uint64_t host)
{
    for (size_t i = 0; i < among_these->count; i++) {
        if (host >= among_these->list[i].start && host < among_these->list[i].end) {
            return &among_these->list[i];
        }
    }
    return NULL;
}

/* Take in /proc/self/maps, without QEMU's own; lines that name files go to `copy`. */
static void read_maps(struct ranges *into, FILE *copy)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t capacity = 0;
    into->count = 0;
    while (maps != NULL && getline(&line, &capacity, maps) > 0) {
        unsigned long long from, to;
        if (sscanf(line, "%llx-%llx", &from, &to) != 2 || (into != &emulator && find_range(&emulator, from))) {
            continue;
        }
        if (into->count == into->capacity) {
            size_t larger = into->capacity ? 2 * into->capacity : 256;
            struct range *list = realloc(into->list, larger * sizeof *list);
            if (list == NULL) {
                break;
            }
            into->list = list;
            into->capacity = larger;
        }
        into->list[into->count++] = (struct range){from, to};
        if (copy != NULL && strchr(line, '/') != NULL) {
            fputs(line, copy);
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    free(line);
}

static void snapshot_maps(uint64_t base)
{
    char *text = NULL;
    size_t size = 0;
    FILE *copy = open_memstream(&text, &size);
    if (copy == NULL) {
        return;
    }
    fprintf(copy, "base %llx\n", (unsigned long long)base);
    read_maps(&ranges, copy);
    fclose(copy);
    append_text("maps", text, size);
    free(text);
}

static void look_at_maps(uint64_t host, uint64_t base)
{
    static uint64_t last_start, last_end;
    if (maps_changed) {
        maps_changed = false;
        last_start = last_end = 0;
        ranges.count = 0;
    }
    if (host >= last_start && host < last_end) {
        return;
    }
    for (int attempt = 0; attempt < 2; attempt++) {
        const struct range *found = find_range(&ranges, host);
        if (found != NULL) {
            last_start = found->start;
            last_end = found->end;
            return;
        }
        if (snapshots++ >= 1000) { /* a program that generates code in ever new places */
            return;
        }
        snapshot_maps(base);
    }
}

static bool is_repeated_string(const uint8_t *code, size_t length)
{
    bool prefix = false;
    for (size_t i = 0; i < length; i++) {
        uint8_t c = code[i];
        if (c == 0xF2 || c == 0xF3) {
            prefix = true;
        } else if (!(c == 0x66 || c == 0x67 || c == 0x2E || c == 0x36 || c == 0x3E || c == 0x26 || c == 0x64 ||
                     c == 0x65 || c == 0xF0 || (c & 0xF0) == 0x40)) {
            return prefix && ((c >= 0xA4 && c <= 0xA7) || (c >= 0xAA && c <= 0xAF) || (c >= 0x6C && c <= 0x6F));
        }
    }
    return false;
}

/* A place for a descriptor of `size` bytes that does not cross parts of the file. */
static void *place(size_t size)
{
    if (block_used + size > BLOCK_BYTES) {
        char *part = map_file("blocks", block_parts * BLOCK_BYTES, BLOCK_BYTES);
        if (part == NULL) {
            return NULL;
        }
        if (block_part != NULL) {
            munmap(block_part, BLOCK_BYTES);
        }
        block_part = part;
        block_parts++;
        block_used = 0;
    }
    void *at = block_part + block_used;
    block_used += size;
    return at;
}

/* QEMU before 9.0 leaves among an x86 block's instructions the one at which it gave the block up, because it goes on in
 * the next page; it runs in a block of its own. What QEMU had read of it is no whole instruction. */
static bool is_given_up(struct qemu_plugin_insn *insn)
{
    if (isa != X86_64 || (qemu_plugin_insn_vaddr(insn) & 4095) + 15 <= 4096) {
        return false;
    }
    char *text = qemu_plugin_insn_disas(insn);
    bool incomplete = text != NULL && (text[0] == 0 || strncmp(text, ".byte", 5) == 0);
    free(text);
    return incomplete;
}

#define MOST_THAT_TELL 4096

static struct encoding encoding_of(struct qemu_plugin_insn *insn, const uint8_t *code)
{
    uint64_t address = qemu_plugin_insn_vaddr(insn);
    size_t size = qemu_plugin_insn_size(insn);
    return isa == X86_64 ? x86_encoding(code, size, address) : arm_encoding(code, size, address);
}

/* Have the operand of a prefetch, or of what is zeroed, taken where all writes of its registers before instruction i, and
 * none behind, are seen: at once, at the next access, or at the block's end; nowhere where they change between, unless a
 * known number was added. */
static void follow_operand(struct qemu_plugin_tb *tb, const struct encoding *e, size_t n, size_t i,
                            struct special_access **special)
{
    struct operand operand = e[i].operand;
    uint32_t registers = registers_of(&operand), unseen = 0;
    for (size_t k = 0; k < i; k++) {
        unseen = (e[k].accesses ? 0 : unseen) | (e[k].writes & registers);
    }
    size_t end = i + 1;
    while (unseen != 0 && end < n && !e[end].accesses) {
        if (e[end].writes & registers) {
            if (e[end].adds == 0 || e[end].writes != registers) {
                return;
            }
            operand.displacement -= e[end].adds;
        }
        end++;
    }
    struct operation *o = malloc(sizeof *o);
    if (o == NULL) {
        return;
    }
    *o = (struct operation){.operand = operand, .zeroes = e[i].zeroes};
    o->word = ACCESS | (o->zeroes ? STORE_OF_64 : PREFETCH) | (uint64_t)i << 54;
    struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
    if (unseen == 0) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_operation, CB_NO_REGS, o);
        return;
    }
    if (end == n || special[end] != NULL || (special[end] = calloc(1, sizeof **special)) != NULL) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_operation_that_waits, CB_NO_REGS, o);
    }
}

/* A quotient is where we see it when the next instruction, or block, begins. */
static void follow_division(struct qemu_plugin_tb *tb, const struct encoding *e, size_t n, size_t i)
{
    struct operation *o = malloc(sizeof *o);
    if (o == NULL) {
        return;
    }
    *o = (struct operation){.word = DIVISION | (uint64_t)i << 8, .divides = e->divides, .is_signed = e->is_signed};
    qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, i + 1 < n ? i + 1 : i),
                                           i + 1 < n ? on_operation : on_operation_that_waits, CB_NO_REGS, o);
}

/* Follow the divisions, prefetches and zeroed lines of a block whose n instructions' codes are in its descriptor's rows;
 * `special` [n] are the accesses that show something of registers, NULL for others. */
static void follow_operations(struct qemu_plugin_tb *tb, const uint64_t *rows, size_t n, struct special_access **special)
{
    struct encoding e[MAX_BLOCK];
    bool follows = false;
    for (size_t i = 0; i < n; i++) {
        e[i] = encoding_of(qemu_plugin_tb_get_insn(tb, i), (const uint8_t *)(rows + 3 * i + 1));
        e[i].zeroes = e[i].zeroes && zeroed != 0;
        follows |= e[i].divides || e[i].prefetches || e[i].zeroes;
    }
    for (size_t i = 0; i < n; i++) {
        if (e[i].divides) {
            follow_division(tb, &e[i], n, i);
        } else if (e[i].prefetches || e[i].zeroes) {
            follow_operand(tb, e, n, i, special);
        }
    }
    for (size_t i = 0; i < n && (follows || places_that_tell < MOST_THAT_TELL); i++) {
        if (e[i].tells && (special[i] != NULL || (special[i] = calloc(1, sizeof **special)) != NULL)) {
            special[i]->tells = true;
            special[i]->operand = e[i].operand;
            ++places_that_tell;
        }
    }
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    size_t n = qemu_plugin_tb_n_insns(tb);
    if (n > 1 && is_given_up(qemu_plugin_tb_get_insn(tb, n - 1))) {
        n--;
    }
    if (forked || n == 0 || n > MAX_BLOCK) {
        return;
    }
    struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0);
    uint64_t base = (uint64_t)(uintptr_t)qemu_plugin_insn_haddr(first) - qemu_plugin_insn_vaddr(first);
    guest_base = base;

    pthread_mutex_lock(&lock);
    struct block *b = malloc(sizeof *b);
    uint64_t *descriptor = b ? place(16 + 24 * n) : NULL;
    if (descriptor == NULL) { /* the disk is full: what follows cannot be described, so it is not recorded */
        for (size_t v = 0; v < MAX_VCPUS; v++) {
            if (threads[v] != NULL && threads[v]->recording) {
                fail(threads[v]);
            }
        }
        free(b);
        pthread_mutex_unlock(&lock);
        return;
    }
    unsigned looks = snapshots;
    look_at_maps(base + qemu_plugin_insn_vaddr(first), base);
    if (sites != NULL && snapshots != looks) {
        ask_for_sites();
    }
    b->word = BLOCK | block_number;
    b->count = n;
    b->first_repeat = b->last_repeat = 0;
    b->address = qemu_plugin_insn_vaddr(first);
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        size_t size = qemu_plugin_insn_size(insn);
        uint64_t *entry = descriptor + 2 + 3 * i;
        entry[0] = address;
        /* The guest's memory is mapped as it is: no need for qemu_plugin_insn_data, which differs between versions. */
        memcpy(entry + 1, (const void *)(uintptr_t)(base + address), size < 16 ? size : 16);
        if (isa == X86_64 && (i == 0 || i == n - 1) && is_repeated_string((const uint8_t *)(entry + 1), size)) {
            b->first_repeat = i == 0 ? address : b->first_repeat;
            b->last_repeat = i == n - 1 ? address : 0;
        }
        if (i == n - 1) {
            b->end = address + size;
            b->ending = ending_of((const uint8_t *)(entry + 1), size);
        }
    }
    struct special_access *special[MAX_BLOCK] = {NULL};
    if (KNOWS_STATE && isa != RISCV64 && !disbelieved) {
        follow_operations(tb, descriptor + 2, n, special);
    }
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t word = ACCESS | (uint64_t)i << 54 | (b->word & NUMBER);
        if (special[i] != NULL) {
            special[i]->word = word;
            qemu_plugin_register_vcpu_mem_cb(insn, on_special_access, CB_NO_REGS, MEM_RW, special[i]);
        } else {
            qemu_plugin_register_vcpu_mem_cb(insn, on_access, CB_NO_REGS, MEM_RW, (void *)(uintptr_t)word);
        }
        if (sites != NULL) {
            watch_site(insn, b, i);
        }
    }
    descriptor[1] = n;
    __atomic_store_n(&descriptor[0], block_number + 1, __ATOMIC_RELEASE);
    block_number++;
    pthread_mutex_unlock(&lock);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, CB_NO_REGS, b);
}

static void on_thread(qemu_plugin_id_t id, unsigned int vcpu)
{
    (void)id;
    if (forked) {
        return;
    }
    if (vcpu >= MAX_VCPUS || (streams > 0 && !all_threads)) {
        __atomic_fetch_add(&unrecorded->threads, 1, __ATOMIC_RELAXED);
        return;
    }
    pthread_mutex_lock(&lock);
    if (threads[vcpu] != NULL) { /* the number of a thread that has ended */
        if (threads[vcpu]->ring != NULL) {
            munmap(threads[vcpu]->ring, sizeof(struct ring) + threads[vcpu]->ring->slots * SLOT_WORDS * 8);
        }
        free(threads[vcpu]->returns);
        free(threads[vcpu]);
    }
    threads[vcpu] = open_thread(streams == 0);
    pthread_mutex_unlock(&lock);
}

/* Copy from the program's memory. Its pointers may be wrong, and its error must stay its own: the kernel copies. */
static ssize_t copy_from_program(void *to, uint64_t address, size_t size)
{
    struct iovec here = {to, size}, there = {(void *)(uintptr_t)(guest_base + address), size};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0);
}

static bool is_exec(int64_t number, uint64_t *path_argument)
{
    *path_argument = number == (isa == X86_64 ? 322 : 281); /* execveat has a folder first */
    return *path_argument || number == (isa == X86_64 ? 59 : 221);
}

/* QEMU ends a block with the instruction of a system call, and calls this before it runs another one.
 *
 * Where handlers start is where signals cut blocks short; the reader looks at these places. */
static void on_syscall(qemu_plugin_id_t id, unsigned int vcpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
                       uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)id, (void)a4, (void)a6, (void)a7, (void)a8;
    uint64_t second;
    if (forked) {
        return;
    }
    if (vcpu < MAX_VCPUS && threads[vcpu] != NULL) {
        put(threads[vcpu], SYSTEM_CALL | (number < 0 || number > UINT16_MAX ? UINT16_MAX : (uint64_t)number));
    }
    if (number == (isa == X86_64 ? 13 : 134) && a2 != 0) { /* rt_sigaction */
        uint64_t handler = 0;
        if (copy_from_program(&handler, a2, sizeof handler) == sizeof handler && handler > 1) {
            char line[64];
            int length = snprintf(line, sizeof line, "%d %llx\n", (int)a1, (unsigned long long)handler);
            append_text("handlers", line, (size_t)length);
        }
    } else if (number == (isa == X86_64 ? 9 : 222) && (a3 & PROT_EXEC) != 0 && (int)a5 >= 0) {
        maps_changed = true; /* mmap of a file's code: it may come to addresses that were another's */
    } else if (is_exec(number, &second)) {
        char path[4096] = "";
        ssize_t length = copy_from_program(path, second ? a2 : a1, sizeof path); /* short at an unmapped page */
        if (length > 0) {
            append_text("replaced", path, strnlen(path, (size_t)length));
        }
    }
}

/* An exec that returns has failed. */
static void on_syscall_return(qemu_plugin_id_t id, unsigned int vcpu, int64_t number, int64_t result)
{
    (void)id, (void)vcpu, (void)result;
    uint64_t second;
    if (!forked && is_exec(number, &second)) {
        char path[4200];
        snprintf(path, sizeof path, "%s/replaced", folder);
        unlink(path);
    }
}

static void after_fork(void)
{
    if (!forked) {
        __atomic_fetch_add(&unrecorded->children, 1, __ATOMIC_RELAXED);
    }
}

/* A forked child shares the mappings: it must not write there, and is not traced. */
static void on_fork(void)
{
    forked = true;
    for (size_t v = 0; v < MAX_VCPUS; v++) {
        if (threads[v] != NULL) {
            discard(threads[v]);
            threads[v] = NULL;
        }
    }
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value == NULL) {
            return -1;
        }
        *value++ = 0;
        if (strcmp(argv[i], "dir") == 0) {
            snprintf(folder, sizeof folder, "%s", value);
        } else if (strcmp(argv[i], "isa") == 0) {
            isa = strcmp(value, "x86-64") == 0 ? X86_64 : strcmp(value, "aarch64") == 0 ? AARCH64 : RISCV64;
        } else if (strcmp(argv[i], "skip") == 0) {
            skip = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "max") == 0) {
            max = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "reader") == 0) {
            reader = (pid_t)strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "region") == 0) {
            region = strcmp(value, "function") == 0 ? FUNCTION : BETWEEN;
        } else if (strcmp(argv[i], "from-start") == 0) {
            from_start = strcmp(value, "on") == 0;
        } else if (strcmp(argv[i], "times") == 0) {
            times = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "zeroed") == 0) {
            zeroed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "threads") == 0) {
            all_threads = strcmp(value, "on") == 0;
        } else {
            return -1;
        }
    }
    if (folder[0] == 0 || reader <= 0) {
        return -1;
    }
    unrecorded = map_file("unrecorded", 0, sizeof *unrecorded);
    if (unrecorded == NULL) {
        return -1;
    }
    if (region != WHOLE) {
        sites = map_file("sites", 0, sizeof *sites);
        if (sites == NULL) {
            return -1;
        }
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a reader that is killed cannot end us */
    end_with_reader();                /* it may have been before */
    read_maps(&emulator, NULL);
    pthread_atfork(NULL, after_fork, on_fork);
    qemu_plugin_register_vcpu_init_cb(id, on_thread);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
    return 0;
}
