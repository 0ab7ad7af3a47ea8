/* N queens by backtracking with bit masks; argument: n. Recursion and integer logic in registers. */
#include <stdio.h>
#include <stdlib.h>

static long solve(unsigned all, unsigned columns, unsigned left, unsigned right) {
    if (columns == all) return 1;
    long count = 0;
    for (unsigned free = all & ~(columns | left | right); free; free &= free - 1) {
        unsigned bit = free & -free;
        count += solve(all, columns | bit, (left | bit) << 1, (right | bit) >> 1);
    }
    return count;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 9;
    printf("%ld\n", solve((1u << n) - 1, 0, 0, 0));
    return 0;
}
