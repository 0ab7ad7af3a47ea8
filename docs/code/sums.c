/* Sum the columns of a square matrix. -DROWS_FIRST walks memory in order; without it every step skips a row. */
#include <stdio.h>
#include <stdlib.h>

static void sums(const double *matrix, double *sum, long n) {
#ifdef ROWS_FIRST
    for (long row = 0; row < n; row++)
        for (long column = 0; column < n; column++) sum[column] += matrix[row * n + column];
#else
    for (long column = 0; column < n; column++)
        for (long row = 0; row < n; row++) sum[column] += matrix[row * n + column];
#endif
}

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 600;
    double *matrix = malloc(n * n * sizeof *matrix), *sum = calloc(n, sizeof *sum);
    for (long i = 0; i < n * n; i++) matrix[i] = (double)(i % 7);
    sums(matrix, sum, n);
    printf("%g\n", sum[n / 2]);
    return 0;
}
