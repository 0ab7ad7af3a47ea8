/* Sum a linked list several times. Nodes are linked in random order, or with -DIN_ORDER as they lie in memory. */
#include <stdio.h>
#include <stdlib.h>

struct node { struct node *next; long value; char rest[48]; };  /* a cache line */

__attribute__((noinline)) static long sum(const struct node *node) {
    long total = 0;
    for (; node; node = node->next) total += node->value;
    return total;
}

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 20000, rounds = argc > 2 ? atol(argv[2]) : 10, total = 0;
    struct node *nodes = malloc(n * sizeof *nodes);
    long *order = malloc(n * sizeof *order);
    unsigned seed = 1;
    for (long i = 0; i < n; i++) order[i] = i;
#ifndef IN_ORDER
    for (long i = n - 1; i > 0; i--) {
        seed = seed * 1664525u + 1013904223u;
        long j = (seed >> 4) % (i + 1), t = order[i];
        order[i] = order[j], order[j] = t;
    }
#endif
    for (long i = 0; i < n; i++) {
        nodes[order[i]].value = i;
        nodes[order[i]].next = i + 1 < n ? &nodes[order[i + 1]] : NULL;
    }
    for (long round = 0; round < rounds; round++) total += sum(&nodes[order[0]]);
    printf("%ld %u\n", total, seed & 1);
    return 0;
}
