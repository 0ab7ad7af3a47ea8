/* Pointer chasing through a random cycle; arguments: nodes, steps. Latency-bound dependent loads. */
#include <stdio.h>
#include <stdlib.h>

struct node { struct node *next; long value, pad[6]; };

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1 << 15, steps = argc > 2 ? atol(argv[2]) : 4000000, sum = 0;
    struct node *nodes = malloc(sizeof *nodes * n);
    unsigned *order = malloc(sizeof *order * n), seed = 1;
    for (long i = 0; i < n; i++) order[i] = i;
    for (long i = n - 1; i > 0; i--) {
        seed = seed * 1664525u + 1013904223u;
        long j = (seed >> 8) % i;
        unsigned t = order[i]; order[i] = order[j]; order[j] = t;
    }
    for (long i = 0; i < n; i++) { nodes[order[i]].next = &nodes[order[(i + 1) % n]]; nodes[i].value = i; }
    struct node *p = nodes;
    for (long i = 0; i < steps; i++) { sum += p->value; p = p->next; }
    printf("%ld\n", sum);
    return 0;
}
