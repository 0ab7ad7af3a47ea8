/* Mandelbrot set; argument: side. Serial floating point with data-dependent loop exits. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 200, inside = 0;
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) {
            double cr = 3.0 * x / n - 2, ci = 2.0 * y / n - 1, r = 0, i = 0;
            int k = 0;
            for (; k < 60 && r * r + i * i < 4; k++) { double t = r * r - i * i + cr; i = 2 * r * i + ci; r = t; }
            inside += k == 60;
        }
    printf("%d\n", inside);
    return 0;
}
