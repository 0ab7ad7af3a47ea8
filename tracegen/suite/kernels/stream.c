/* STREAM-like copy, scale, add and triad; arguments: elements, rounds. Bandwidth-bound with perfect strides. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1 << 18;
    int rounds = argc > 2 ? atoi(argv[2]) : 8;
    double *a = malloc(sizeof *a * n), *b = malloc(sizeof *b * n), *c = malloc(sizeof *c * n), sum = 0;
    for (long i = 0; i < n; i++) { a[i] = 1; b[i] = 2; c[i] = 0; }
    for (int round = 0; round < rounds; round++) {
        for (long i = 0; i < n; i++) c[i] = a[i];
        for (long i = 0; i < n; i++) b[i] = 3 * c[i];
        for (long i = 0; i < n; i++) c[i] = a[i] + b[i];
        for (long i = 0; i < n; i++) a[i] = b[i] + 3 * c[i];
        for (long i = 0; i < n; i++) sum += a[i];
    }
    printf("%g\n", sum);
    return 0;
}
