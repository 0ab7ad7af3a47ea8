/* Open-addressing hash table: insertions and look-ups of random keys; arguments: log2 of the slots, operations. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    unsigned long slots = 1UL << (argc > 1 ? atoi(argv[1]) : 16), operations = argc > 2 ? strtoul(argv[2], 0, 10) : 500000;
    unsigned long *table = calloc(slots, sizeof *table), seed = 88172645463325252UL, found = 0;
    for (unsigned long i = 0; i < operations; i++) {
        seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
        unsigned long key = seed % slots / 2 + 1, place = key * 0x9E3779B97F4A7C15UL % slots;
        while (table[place] && table[place] != key) place = (place + 1) % slots;
        if (table[place]) found++; else table[place] = key;
    }
    printf("%lu\n", found);
    return 0;
}
