/* Tiled product c += a·b of a few rows with a large square; arguments: tile, rows, order, rounds. The tile decides how
 * much of b stays in a cache between rows, and how often the inner loop begins anew. What is of interest is `multiply`;
 * with -DTILE=N the first argument is ignored. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) void multiply(int rows, int n, int tile, const double *restrict a, const double *restrict b,
                                        double *restrict c) {
#ifdef TILE
    tile = TILE;
#endif
    for (int kk = 0; kk < n; kk += tile)
        for (int jj = 0; jj < n; jj += tile)
            for (int i = 0; i < rows; i++)
                for (int k = kk; k < kk + tile && k < n; k++) {
                    int end = jj + tile < n ? jj + tile : n;
                    for (int j = jj; j < end; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
                }
}

int main(int argc, char **argv) {
    int tile = argc > 1 ? atoi(argv[1]) : 16, rows = argc > 2 ? atoi(argv[2]) : 8, n = argc > 3 ? atoi(argv[3]) : 256;
    int rounds = argc > 4 ? atoi(argv[4]) : 1;
    if (tile < 1 || rows < 1 || n < 1 || rounds < 1) return 2;
    double *a = malloc(sizeof *a * rows * n), *b = malloc(sizeof *b * n * n), *c = calloc((size_t)rows * n, sizeof *c);
    for (int i = 0; i < rows * n; i++) a[i] = i % 7;
    for (int i = 0; i < n * n; i++) b[i] = i % 5;
    for (int round = 0; round < rounds; round++) multiply(rows, n, tile, a, b, c);
    printf("%g\n", c[rows * n - 1]);
    return 0;
}
