/* Random binary search tree: insertions, then look-ups and an in-order walk; argument: nodes. Pointers and recursion. */
#include <stdio.h>
#include <stdlib.h>

struct node { struct node *left, *right; unsigned key; };
static long walk(struct node *t) { return t ? walk(t->left) + 1 + walk(t->right) : 0; }

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 40000, hits = 0;
    struct node *root = 0;
    unsigned seed = 5;
    for (long i = 0; i < 3 * n; i++) {
        seed = seed * 1664525u + 1013904223u;
        unsigned key = seed >> 9;
        struct node **p = &root;
        while (*p && (*p)->key != key) p = key < (*p)->key ? &(*p)->left : &(*p)->right;
        if (*p) hits++;
        else if (i < n) { *p = calloc(1, sizeof **p); (*p)->key = key; }
    }
    printf("%ld %ld\n", hits, walk(root));
    return 0;
}
