/* Work that can be counted: `chase` and `divide` have loops, `recursive` calls itself, `leaves` is left by longjmp. */
#include <setjmp.h>

static jmp_buf out;
static int table[4096];
volatile long sink;

__attribute__((noinline)) long chase(long n)
{
    long at = 0;
    for (long i = 0; i < n; i++) {
        at = table[at];
    }
    return at;
}

__attribute__((noinline)) long divide(long n)
{
    long sum = 0;
    for (long i = 1; i <= n; i++) {
        for (long k = 1; k <= 3; k++) {
            sum += n / (i + k + sum % 3);
        }
    }
    return sum;
}

__attribute__((noinline)) void leaves(long n)
{
    sink = divide(n);
    longjmp(out, 1);
}

__attribute__((noinline)) long recursive(long n)
{
    return n == 0 ? chase(100) : recursive(n - 1) + 1;
}

#ifdef MORE
__attribute__((noinline)) long more(long n)
{
    return chase(n) + chase(n);
}
#endif

int main(void)
{
    for (int i = 0; i < 4096; i++) {
        table[i] = (i * 1021 + 7) & 4095;
    }
    sink = recursive(5);
    if (setjmp(out) == 0) {
        leaves(20);
    }
    sink = divide(30);
#ifdef MORE
    sink = more(200);
#endif
    return 0;
}
