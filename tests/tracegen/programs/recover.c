/* Recovers from a fault COUNT times. Each time `attempt` runs up to its load, never the two instructions after it. */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

static sigjmp_buf back;
long landed;

static void handler(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}

long attempt(volatile long *where);
__asm__(".globl attempt\n"
        ".type attempt, @function\n"
        "attempt:\n"
        "  lea 1(%rdi), %rax\n"
        "  mov (%rdi), %rdx\n"
        ".globl after\n"
        "after:\n"
        "  add %rdx, %rax\n"
        "  mov %rax, landed(%rip)\n"
        "  ret\n"
        ".size attempt, . - attempt\n");

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 5;
    signal(SIGSEGV, handler);
    for (volatile int i = 0; i < count; i++) {
        if (sigsetjmp(back, 1) == 0) {
            attempt(NULL);
        }
    }
    return attempt(&landed) == 0;
}
