/* A function of known length, called from several places; one in a library, one in a library that is loaded late. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long library_work(long n);

static jmp_buf out;

/* 3 n + 3 instructions: xor, n times (add, dec, jnz), mov or lea … counted by the test where it matters */
__attribute__((noinline, noclone)) long kernel(long n)
{
    long sum;
    __asm__ volatile("xor %0, %0\n"
                     "kernel_loop: add %1, %0\n"
                     "dec %1\n"
                     "jnz kernel_loop\n"
                     "kernel_end: nop\n"
                     : "=&r"(sum), "+r"(n));
    return sum;
}

__attribute__((noinline, noclone)) long outer(long n)
{
    return kernel(n) + kernel(2 * n);
}

__attribute__((noinline, noclone)) long recursive(long n)
{
    return n == 0 ? kernel(1) : recursive(n - 1) + 1;
}

__attribute__((noinline, noclone)) void leaves(long n)
{
    kernel(n);
    longjmp(out, 1);
}

int main(int argc, char **argv)
{
    long sum = outer(10) + recursive(3) + library_work(5);
    if (setjmp(out) == 0) {
        leaves(4);
    }
    sum += kernel(7);
    if (argc > 1) {
        void *late = dlopen(argv[1], RTLD_NOW);
        if (late == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        sum += ((long (*)(long))dlsym(late, "late_work"))(6);
    }
    printf("%ld\n", sum);
    return 0;
}
