/* Gravitation of n bodies; arguments: bodies, steps. Divisions and square roots on the critical path. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 64, steps = argc > 2 ? atoi(argv[2]) : 100;
    double *p = malloc(sizeof *p * 3 * n), *v = calloc(3 * n, sizeof *v);
    for (int i = 0; i < 3 * n; i++) p[i] = (i * 37 % 101) / 10.0;
    for (int s = 0; s < steps; s++) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                if (i == j) continue;
                double dx = p[3 * j] - p[3 * i], dy = p[3 * j + 1] - p[3 * i + 1], dz = p[3 * j + 2] - p[3 * i + 2];
                double d2 = dx * dx + dy * dy + dz * dz + 0.01, f = 1e-3 / (d2 * sqrt(d2));
                v[3 * i] += dx * f; v[3 * i + 1] += dy * f; v[3 * i + 2] += dz * f;
            }
        for (int i = 0; i < 3 * n; i++) p[i] += v[i] * 0.01;
    }
    printf("%g\n", p[0]);
    return 0;
}
