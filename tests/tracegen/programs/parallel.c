/* Three threads that execute 3 n + 3 instructions of one function each. */
#include <pthread.h>

void counted(long n);
__asm__(".globl counted\n.type counted, @function\ncounted:\n"
        "xor %eax, %eax\n1: add %rdi, %rax\ndec %rdi\njnz 1b\nnop\nret\n.size counted, . - counted\n");

static void *thread(void *n)
{
    counted((long)n);
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    long counts[] = {1000, 20000, 300000};
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, thread, (void *)counts[i]);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
