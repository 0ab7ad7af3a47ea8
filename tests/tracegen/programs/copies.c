/* Copies 24 bytes 2,000 times, with the C library's memcpy: to every 32 bytes of `to`; prints where. */
#include <stdio.h>
#include <string.h>

char to[64000], from[64000];
volatile size_t size = 24;

int main(void)
{
    for (int i = 0; i < 2000; i++) {
        memcpy(to + 32 * i, from + 32 * i, size);
        __asm__ volatile("" ::: "memory");
    }
    printf("%zu %zu\n", (size_t)from, (size_t)to);
    return 0;
}
