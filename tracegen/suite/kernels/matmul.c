/* Blocked matrix product; argument: order. Cache-friendly floating point with long independent chains. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 128, block = 16;
    double *a = malloc(sizeof *a * n * n), *b = malloc(sizeof *b * n * n), *c = calloc((size_t)n * n, sizeof *c);
    for (int i = 0; i < n * n; i++) { a[i] = i % 7; b[i] = i % 5; }
    for (int ii = 0; ii < n; ii += block)
        for (int kk = 0; kk < n; kk += block)
            for (int i = ii; i < ii + block && i < n; i++)
                for (int k = kk; k < kk + block && k < n; k++)
                    for (int j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
    printf("%g\n", c[n + 1]);
    return 0;
}
