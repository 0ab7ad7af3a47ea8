/* Passages of random behaviour, to teach a model what no single program shows; arguments: seed, passages, log2 of the
 * largest working set in bytes. Each passage draws what it does, on how much memory and how predictably. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long word;

static word state;
static char *memory;
static int largest;

static word draw(word below) {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return (state >> 11) % below;
}

/* A power of two of bytes between 1 KiB and the largest working set, each size as likely. */
static word span(void) { return 1UL << (10 + draw(largest - 9)); }

/* Loads whose addresses depend on the loads before, `chains` of them side by side; memory is all zero where unwritten. */
static word chase(word steps) {
    word mask = span() / 8 - 1, chains = 1 + draw(4), at[4] = {1, 3, 5, 7}, *table = (word *)memory;
    for (word i = 0; i < steps; i++)
        for (word c = 0; c < chains; c++) at[c] = (at[c] * 1664525 + 1013904223 + (table[at[c] & mask] & 8)) & mask;
    return at[0];
}

/* Independent loads (or stores) all over the working set. */
static word scatter(word steps) {
    word mask = span() / 8 - 1, at = draw(1000), sum = 0, *table = (word *)memory, stores = draw(3);
    for (word i = 0; i < steps; i++) {
        at = at * 6364136223846793005UL + 1442695040888963407UL;
        word place = (at >> 33) & mask;
        if (stores == 0) table[place] = i; else if (stores == 1) table[place] += at; else sum += table[place];
    }
    return sum;
}

/* Up to three arrays walked at one stride. */
static word stream(word steps) {
    word bytes = span(), stride = 1UL << draw(5), kind = draw(4), n = bytes / 32, at = 0;
    double *a = (double *)memory, *b = a + n, *c = b + n, sum = 0;
    for (word i = 0; i < steps; i++, at += stride) {
        if (at >= n) at = 0;
        if (kind == 0) sum += a[at];
        else if (kind == 1) a[at] = b[at];
        else if (kind == 2) a[at] = b[at] * 3.0 + c[at];
        else a[at] = 1.0;
    }
    return (word)sum;
}

static word fill(word steps) {
    word bytes = span(), total = 0;
    for (word i = 0; i < steps; i += bytes / 8, total++)
        for (word at = 0; at < bytes / 8; at++) ((word *)memory)[at] = i;
    return total;
}

/* Branches on random numbers: taken with a probability of 1 to 50 %, after a dependent or an independent computation. */
static word branches(word steps) {
    word limit = draw(512), sum = 0, slow = draw(2), x = draw(1000);
    for (word i = 0; i < steps; i++) {
        x = x * 6364136223846793005UL + 1442695040888963407UL;
        word number = (x >> 40) & 1023;
        if (slow) number = number * number / (number + 1) & 1023;
        if (number < limit) sum += number ^ i; else if (number & 64 && limit > 256) sum -= i;
    }
    return sum;
}

/* Branches that repeat with a period, which histories of its length can learn. */
static word periods(word steps) {
    word period = 2 + draw(60), pattern = draw(1UL << 40), at = 0, sum = 0;
    for (word i = 0; i < steps; i++) {
        if (pattern >> at & 1) sum += i; else sum ^= 5;
        if (++at == period) at = 0;
    }
    return sum;
}

static word floating(word steps) {
    word chains = 1 + draw(8), kind = draw(4);
    double value[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (word i = 0; i < steps; i++)
        for (word c = 0; c < chains; c++) {
            if (kind == 0) value[c] = value[c] * 0.999 + 0.5;
            else if (kind == 1) value[c] += 1.5;
            else if (kind == 2) value[c] = 3.0 / (value[c] + 1.0);
            else value[c] = sqrt(value[c] + 2.0);
        }
    return (word)value[0];
}

static word integers(word steps) {
    word chains = 1 + draw(6), kind = draw(3), value[6] = {1, 2, 3, 4, 5, 6};
    for (word i = 0; i < steps; i++)
        for (word c = 0; c < chains; c++) {
            if (kind == 0) value[c] = (value[c] << 7 | value[c] >> 57) + (value[c] ^ 0x5bd1e995);
            else if (kind == 1) value[c] = value[c] * 25214903917UL + 11;
            else value[c] = 1000000007UL * 64 / (value[c] % 1000 + 1) + i;
        }
    return value[0];
}

static word depth_first(word depth, word x) { return depth == 0 ? x : depth_first(depth - 1, x * 3 + depth) + 1; }

static word calls(word steps) {
    word depth = 1 + draw(40), sum = 0;
    for (word i = 0; i < steps; i += depth) sum += depth_first(depth, i);
    return sum;
}

/* Many small functions, called through a table in a random or in a fixed order: a large code. */
#define ONE(n) static word small_##n(word x) { return x * (2 * n + 3) + (x >> (n % 17 + 1)) - (x & n ? n : x / (n + 7)); }
#define FOUR(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3)
#define SIXTEEN(n) FOUR(n##0) FOUR(n##1) FOUR(n##2) FOUR(n##3)
#define ALL SIXTEEN(10) SIXTEEN(11) SIXTEEN(12) SIXTEEN(13) SIXTEEN(20) SIXTEEN(21) SIXTEEN(22) SIXTEEN(23)
ALL
#undef ONE
#define ONE(n) small_##n,
static word (*const table[])(word) = {ALL};

static word codes(word steps) {
    word count = 1UL << draw(8), random = draw(2), at = 0, x = 1;
    for (word i = 0; i < steps; i++) {
        at = random ? at * 1664525 + 1013904223 : at + 1;
        x = table[(random ? at >> 16 : at) % count](x);
    }
    return x;
}

/* What was stored a few iterations ago is read again. */
static word queue(word steps) {
    volatile word ring[64] = {0};
    word distance = 1 + draw(40), sum = 0;
    for (word i = 0; i < steps; i++) { ring[i & 63] = i ^ sum; sum += ring[(i - distance) & 63]; }
    return sum;
}

/* A matrix by columns, and a small product of matrices. */
static word matrices(word steps) {
    word n = 8 + draw(120);
    double *a = (double *)memory, *b = a + n * n, *c = b + n * n;
    for (word done = 0; done < steps; done += n * n)
        for (word i = 0; i < n && done + i * n < steps; i++)
            for (word j = 0; j < n; j++) c[j * n + i] += a[i * n + j] * b[j * n + i];
    return (word)c[0];
}

/* Keys looked up in a chained hash table: a load, a branch on what it found, the next load. */
static word lookups(word steps) {
    word slots = span() / 16, found = 0, key = draw(1000), *keys = (word *)memory;
    for (word i = 0; i < steps; i++) {
        key = key * 6364136223846793005UL + 1442695040888963407UL;
        word place = (key >> 20) % slots * 2;
        for (word tries = 0; tries < 4; tries++) {
            if (keys[place] == (key >> 32 & 255)) { found++; break; }
            if (keys[place] == 0) { keys[place] = key >> 32 & 255; break; }
            place = keys[place] * 40503 % slots * 2;
        }
    }
    return found;
}

/* A list in random order through nodes of 8 bytes to 4 KiB, `chains` places at once: nothing but dependent loads. */
#define NODES 8192
static word *list, node;

static void link_list(void) {
    static word order[NODES];
    node = 1UL << draw(10);
    list = calloc(NODES * node, sizeof *list);
    if (!list) exit(1);
    for (word i = 0; i < NODES; i++) order[i] = i;
    for (word i = NODES - 1; i > 0; i--) {
        word other = draw(i), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (word i = 0; i < NODES; i++) list[order[i] * node] = (word)(list + order[(i + 1) % NODES] * node);
}

static word follow(word steps) {
    word chains = 1 + draw(3), *at[3];
    for (word c = 0; c < chains; c++) at[c] = list + draw(NODES) * node;
    for (word i = 0; i < steps; i++)
        for (word c = 0; c < chains; c++) at[c] = (word *)*at[c];
    return (word)at[0] & 7;
}

/* Rows of a sparse matrix times a vector: indices are read, then what they point at. */
static word gather(word steps) {
    word bytes = span(), mask = bytes / 8 - 1, row = 1 + draw(40), near = draw(2), at = 0;
    double *x = (double *)memory, total = 0;
    static unsigned index[4096];
    for (word i = 0; i < 4096; i++) index[i] = near ? i * 3 & mask : draw(mask + 1);
    for (word i = 0; i < steps; i += row) {
        double sum = 0;
        for (word j = 0; j < row; j++, at = (at + 1) & 4095) sum += 1.5 * x[index[at]];
        total += sum;
    }
    return (word)total;
}

/* Butterflies at the distances of a Fourier transform. */
static word butterflies(word steps) {
    word n = span() / 16, done = 0;
    double *re = (double *)memory, *im = re + n;
    for (word half = 1; half < n && done < steps; half *= 2)
        for (word block = 0; block + 2 * half <= n && done < steps; block += 2 * half)
            for (word i = block; i < block + half && done < steps; i++, done++) {
                double a = re[i + half] * 0.8 - im[i + half] * 0.6, b = re[i + half] * 0.6 + im[i + half] * 0.8;
                re[i + half] = re[i] - a; im[i + half] = im[i] - b;
                re[i] += a; im[i] += b;
            }
    return (word)re[0];
}

/* Rounds of a hash: rotations, sums and choices in a long chain beside a schedule in memory. */
static word rounds(word steps) {
    unsigned w[64], s[4] = {1, 2, 3, 4}, shift = 1 + draw(30);
    for (int i = 0; i < 64; i++) w[i] = draw(1UL << 32);
    for (word i = 0; i < steps; i++) {
        unsigned t = s[3] + ((s[0] << shift | s[0] >> (32 - shift)) ^ (s[0] >> 3)) + ((s[0] & s[1]) ^ (~s[0] & s[2])) + w[i & 63];
        w[i & 63] += (w[(i + 9) & 63] >> 7 ^ w[(i + 9) & 63] << 25) + w[(i + 14) & 63];
        s[3] = s[2]; s[2] = s[1]; s[1] = s[0]; s[0] = t;
    }
    return s[0];
}

/* Lengths to which bytes at two places agree, as a compressor looks for. */
static word matches(word steps) {
    word alphabet = 1 + draw(4), mask = (1UL << (10 + draw(8))) - 1, sum = 0;
    for (word i = 0; i < 2048; i++) memory[draw(mask + 1)] = draw(alphabet);
    for (word done = 0; done < steps; done++) {
        char *a = memory + draw(mask + 1), *b = memory + draw(mask + 1);
        word length = 0;
        while (length < 258 && a[length] == b[length]) length++;
        sum += length;
        done += length;
    }
    return sum;
}

/* Insertion sorts of short runs of random numbers. */
static word sorting(word steps) {
    unsigned run[64];
    word n = 4 + draw(60), sum = 0;
    for (word done = 0; done < steps; done += n * n / 4) {
        for (word i = 0; i < n; i++) run[i] = draw(1000);
        for (word i = 1; i < n; i++) {
            unsigned key = run[i];
            word j = i;
            for (; j > 0 && run[j - 1] > key; j--) run[j] = run[j - 1];
            run[j] = key;
        }
        sum += run[0];
    }
    return sum;
}

/* Blocks copied, filled and measured by the C library. */
static word copies(word steps) {
    word bytes = span() / 2, most = 8UL << draw(10), kind = draw(3), sum = 0;
    if (most > bytes) most = bytes;
    for (word done = 0; done < steps;) {
        word size = 1 + draw(most), from = draw(bytes - size + 1), to = bytes + draw(bytes - size + 1);
        if (kind == 0) memcpy(memory + to, memory + from, size);
        else if (kind == 1) memset(memory + to, (int)done, size);
        else sum += strnlen(memory + from, size);
        done += 20 + size / 16;
    }
    return sum;
}

/* Each element from the one before: a chain through memory, in numbers or in floating point. */
static word recurrence(word steps) {
    word n = span() / 16, kind = draw(2), *a = (word *)memory;
    double *f = (double *)memory;
    for (word i = 1; i < steps; i++) {
        word at = i % n ? i % n : 1;
        if (kind) a[at] = a[at - 1] * 31 + (a[at] >> 3); else f[at] = f[at - 1] * 0.5 + f[at];
    }
    return a[n / 2] & 7;
}

/* Neighbours in a plane. */
static word stencil(word steps) {
    word width = 16UL << draw(7), rows = span() / 8 / width, done = 0;
    double *a = (double *)memory;
    for (word y = 1; y + 1 < rows && done < steps; y++)
        for (word x = 1; x + 1 < width; x++, done++) {
            double *p = a + y * width + x;
            *p = 0.2 * (p[0] + p[1] + p[-1] + p[width] + p[-width]);
        }
    return (word)a[0];
}

/* A table of bytes driven by data: a checksum, and conditional moves on what it says. */
static word checksums(word steps) {
    word mask = span() - 1, kind = draw(2), low = 0;
    unsigned crc = 0, codes[256];
    for (unsigned i = 0; i < 256; i++) codes[i] = i * 0xedb88320u ^ i << 7;
    for (word i = 0; i < steps; i++) {
        crc = codes[(crc ^ memory[i & mask]) & 255] ^ crc >> 8;
        if (kind) low = crc > low ? crc - low : low + 1;
    }
    return crc ^ low;
}

/* An interpreter: operations fetched from a program, random or in a loop, and dispatched by a jump through a table. */
static word interpreter(word steps) {
    unsigned char program[256];
    word length = 4 + draw(250), stack[16] = {1, 2, 3}, top = 3, acc = 1;
    for (word i = 0; i < length; i++) program[i] = draw(9);
    for (word i = 0, pc = 0; i < steps; i++, pc = pc + 1 < length ? pc + 1 : 0)
        switch (program[pc]) {
        case 0: stack[top++ & 15] = acc; break;
        case 1: acc += stack[--top & 15]; break;
        case 2: acc = acc * 5 + 1; break;
        case 3: acc ^= acc >> 7; break;
        case 4: if (acc & 4) pc = pc > 3 ? pc - 3 : 0; break;
        case 5: memory[acc & 4095] = acc; break;
        case 6: acc += memory[acc & 4095]; break;
        case 7: acc = acc / (stack[top & 15] | 1) + i; break;
        default: acc++;
        }
    return acc;
}

static word (*const passages[])(word) = {chase, scatter, stream, fill, branches, periods, floating, integers, calls,
                                         codes, queue, matrices, lookups, chase, scatter, stream, follow, follow, gather,
                                         butterflies, rounds, matches, sorting, copies, recurrence, stencil, checksums,
                                         interpreter};

int main(int argc, char **argv) {
    state = 88172645463325252UL + 7919 * (argc > 1 ? strtoul(argv[1], 0, 10) : 1);
    word count = argc > 2 ? strtoul(argv[2], 0, 10) : 400, sum = 0;
    largest = argc > 3 ? atoi(argv[3]) : 23;
    if (largest < 20 || largest > 32) return 2;
    for (int i = 0; i < 20; i++) draw(2);
    memory = calloc(1UL << largest, 1);
    if (!memory) return 1;
    link_list();
    for (word i = 0; i < count; i++) sum += passages[draw(sizeof passages / sizeof *passages)](500 + draw(3500));
    printf("%lu\n", sum);
    return 0;
}
