/* Zeroes a part of an array by memset, and prints where it begins and its size. */
#include <stdio.h>
#include <string.h>

static char array[1 << 17];
volatile size_t size = 100001;

int main(void)
{
    char *begin = array + 12345;
    memset(begin, 0, size);
    __asm__ volatile("" ::: "memory");
    printf("%zu %zu\n", (size_t)begin, size);
    return 0;
}
