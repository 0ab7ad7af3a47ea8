/* Iterative radix-2 FFT; argument: log2 of the length. Strided floating point with power-of-two conflicts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int bits = argc > 1 ? atoi(argv[1]) : 14;
    long n = 1L << bits;
    double *re = malloc(sizeof *re * n), *im = malloc(sizeof *im * n);
    for (long i = 0; i < n; i++) { re[i] = i % 17; im[i] = 0; }
    for (int round = 0; round < 6; round++) {
        for (long i = 1, j = 0; i < n; i++) {
            long bit = n >> 1;
            for (; j & bit; bit >>= 1) j ^= bit;
            j ^= bit;
            if (i < j) { double t = re[i]; re[i] = re[j]; re[j] = t; t = im[i]; im[i] = im[j]; im[j] = t; }
        }
        for (long half = 1; half < n; half *= 2) {
            double wr = cos(M_PI / half), wi = -sin(M_PI / half);
            for (long i = 0; i < n; i += 2 * half) {
                double cr = 1, ci = 0;
                for (long j = i; j < i + half; j++) {
                    double xr = re[j + half] * cr - im[j + half] * ci, xi = re[j + half] * ci + im[j + half] * cr;
                    re[j + half] = re[j] - xr; im[j + half] = im[j] - xi;
                    re[j] += xr; im[j] += xi;
                    double t = cr * wr - ci * wi; ci = cr * wi + ci * wr; cr = t;
                }
            }
        }
        for (long i = 0; i < n; i++) { re[i] /= n; im[i] /= n; }
    }
    printf("%g\n", re[1]);
    return 0;
}
