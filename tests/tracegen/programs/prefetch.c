/* Prefetches of known addresses: gathered, in a row, of null and unmapped pointers, of what changes behind; prints them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ITEMS 512
static double table[ITEMS];
static uint32_t places[ITEMS + 16];
static double sum;

struct node {
    struct node *next;
    uint64_t value;
};
static struct node nodes[ITEMS];

static __attribute__((noipa)) double gather(void)
{
    double found = 0;
    for (int i = 0; i < ITEMS; i++) {
        __builtin_prefetch(&table[places[i + 16]]);
        found += table[places[i]];
    }
    return found;
}

static __attribute__((noipa)) double stream(const double *at)
{
    double found = 0;
    for (int i = 0; i < ITEMS; i += 8) {
        __builtin_prefetch(at + i + 64, 0, 0);
        __builtin_prefetch(at + i + 128, 1, 3);
        found += at[i];
    }
    return found;
}

static __attribute__((noipa)) uint64_t chase(const struct node *at)
{
    uint64_t found = 0;
    for (; at != NULL; at = at->next) {
        __builtin_prefetch(at->next);
        found += at->value;
    }
    return found;
}

/* The register changes before it could be seen: its address is not to be told wrong. */
static __attribute__((noipa)) uint64_t changes(uint64_t at)
{
    for (int i = 0; i < 100; i++) {
        __asm__ volatile("lea 64(%0), %0\n\tprefetcht0 (%0)\n\tlea 8(%0), %0" : "+r"(at));
    }
    return at;
}

/* What it was computed to before is seen at the block's end. */
static __attribute__((noipa)) uint64_t computed(uint64_t at)
{
    for (int i = 0; i < 100; i++) {
        __asm__ volatile("lea 64(%0), %0\n\tprefetchnta 8(%0)" : "+r"(at));
    }
    return at;
}

int main(void)
{
    for (uint32_t i = 0; i < ITEMS + 16; i++) {
        places[i] = i * 2654435761u % ITEMS;
    }
    for (uint32_t i = 0; i < ITEMS; i++) {
        nodes[i].next = i + 1 < ITEMS ? &nodes[(i + 1) * 5 % ITEMS] : NULL;
    }
    sum += gather() + stream(table);
    sum += (double)chase(nodes) + (double)(changes(0xFFFFFFFFFFFFF000u) + computed(0x123456789ABC000u));
    for (int i = 0; i < ITEMS; i++) {
        printf("gather %lx\n", (uintptr_t)&table[places[i + 16]]);
    }
    for (int i = 0; i < ITEMS; i += 8) {
        printf("stream %lx\nstream %lx\n", (uintptr_t)(table + i + 64), (uintptr_t)(table + i + 128));
    }
    for (const struct node *at = nodes; at != NULL; at = at->next) {
        printf("chase %lx\n", (uintptr_t)at->next);
    }
    for (uint64_t i = 1; i <= 100; i++) {
        printf("computed %lx\n", 0x123456789ABC000u + 64 * i + 8);
    }
    return 0;
}
