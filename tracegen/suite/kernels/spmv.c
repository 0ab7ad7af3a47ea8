/* Sparse matrix times vector, CSR, random columns; arguments: rows, non-zeros a row. Gathers with indirect addresses. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    long rows = argc > 1 ? atol(argv[1]) : 20000, each = argc > 2 ? atol(argv[2]) : 12;
    int *column = malloc(sizeof *column * rows * each);
    double *value = malloc(sizeof *value * rows * each), *x = malloc(sizeof *x * rows), *y = malloc(sizeof *y * rows);
    unsigned seed = 7;
    for (long i = 0; i < rows * each; i++) { seed = seed * 1664525u + 1013904223u; column[i] = (seed >> 4) % rows; value[i] = 1.5; }
    for (long i = 0; i < rows; i++) x[i] = i;
    for (int round = 0; round < 10; round++) {
        for (long r = 0; r < rows; r++) {
            double sum = 0;
            for (long k = r * each; k < (r + 1) * each; k++) sum += value[k] * x[column[k]];
            y[r] = sum;
        }
        double *t = x; x = y; y = t;
        for (long r = 0; r < rows; r++) x[r] *= 1e-3;
    }
    printf("%g\n", x[1]);
    return 0;
}
