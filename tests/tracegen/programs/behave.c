/* Does what its first argument says, to try what programs do at their end and around it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

volatile long sink;

__attribute__((noinline)) void work(long n)
{
    for (long i = 0; i < n; i++) {
        sink += i;
    }
}

__attribute__((noinline)) void child_work(long n)
{
    for (long i = 0; i < n; i++) {
        sink ^= i;
    }
}

/* Before, beside and after another thread; QEMU translates it in two ways. */
__attribute__((noinline)) void add_atomically(long n)
{
    for (long i = 0; i < n; i++) {
        __atomic_fetch_add(&sink, 1, __ATOMIC_SEQ_CST);
    }
}

static void *thread(void *argument)
{
    child_work((long)argument);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    work(1000);
    if (!strcmp(what, "echo")) { /* arguments, stdin, environment, folder, exit status */
        char line[256], folder[4096];
        if (!fgets(line, sizeof line, stdin) || !getcwd(folder, sizeof folder)) {
            return 9;
        }
        printf("%s|%s|%s|%s", argv[0], argv[2], getenv("GREETING"), folder);
        printf("|%s", line);
        return 7;
    } else if (!strcmp(what, "_exit")) {
        fclose(stderr);
        work(1000);
        _exit(3);
    } else if (!strcmp(what, "close")) {
        for (int fd = 0; fd < 1024; fd++) {
            close(fd);
        }
        work(3000000);
        _exit(0);
    } else if (!strcmp(what, "fork")) {
        pid_t child = fork();
        if (child == 0) {
            child_work(100000);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        work(1000);
    } else if (!strcmp(what, "threads")) {
        pthread_t threads[2];
        for (long i = 0; i < 2; i++) {
            pthread_create(&threads[i], NULL, thread, (void *)(50000 * (i + 1)));
        }
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
        }
    } else if (!strcmp(what, "atomics")) {
        pthread_t other;
        add_atomically(100);
        pthread_create(&other, NULL, thread, (void *)1);
        add_atomically(1000);
        pthread_join(other, NULL);
    } else if (!strcmp(what, "kill")) {
        kill(getpid(), SIGKILL);
    } else if (!strcmp(what, "illegal")) {
        __builtin_trap();
    } else if (!strcmp(what, "exec")) {
        execl("/bin/true", "true", NULL);
    } else if (!strcmp(what, "long")) {
        work(10000000);
    } else if (!strcmp(what, "wait")) {
        for (;;) {
            work(1000);
        }
    }
    return 0;
}
