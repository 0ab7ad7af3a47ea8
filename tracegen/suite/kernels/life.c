/* Conway's Life on bytes; arguments: side, generations. Packed integer arithmetic over neighbouring rows. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 512, generations = argc > 2 ? atoi(argv[2]) : 20;
    unsigned char *a = calloc((size_t)(n + 2) * (n + 2), 1), *b = calloc((size_t)(n + 2) * (n + 2), 1);
    for (int i = 0; i < n * n; i++) a[(i / n + 1) * (n + 2) + i % n + 1] = (i * 7919 >> 3) & 1;
    for (int g = 0; g < generations; g++) {
        for (int y = 1; y <= n; y++) {
            unsigned char *u = a + (y - 1) * (n + 2), *m = u + n + 2, *d = m + n + 2, *o = b + y * (n + 2);
            for (int x = 1; x <= n; x++) {
                unsigned char s = u[x - 1] + u[x] + u[x + 1] + m[x - 1] + m[x + 1] + d[x - 1] + d[x] + d[x + 1];
                o[x] = (s == 3) | ((s == 2) & m[x]);
            }
        }
        unsigned char *t = a; a = b; b = t;
    }
    long alive = 0;
    for (int i = 0; i < (n + 2) * (n + 2); i++) alive += a[i];
    printf("%ld\n", alive);
    return 0;
}
