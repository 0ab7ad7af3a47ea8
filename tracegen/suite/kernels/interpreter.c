/* A byte-code interpreter counting Collatz steps; argument: limit. Indirect jumps through a dispatch table. */
#include <stdio.h>
#include <stdlib.h>

enum { COPY, JUMP_IF_ONE, JUMP_IF_EVEN, TRIPLE, HALVE, INCREMENT, JUMP, NEXT, HALT };
struct instruction { int operation, operand; };
static const struct instruction program[] = {
    {COPY, 0}, {JUMP_IF_ONE, 7}, {JUMP_IF_EVEN, 5}, {TRIPLE, 0}, {JUMP, 6}, {HALVE, 0}, {INCREMENT, 1}, {NEXT, 0}, {HALT, 0}};

int main(int argc, char **argv) {
    long limit = argc > 1 ? atol(argv[1]) : 20000, n = 1, x = 1, steps = 0;
    for (const struct instruction *pc = program;;) {
        switch (pc->operation) {
        case COPY: x = n; pc++; break;
        case JUMP_IF_ONE: pc = x == 1 ? program + pc->operand : pc + 1; break;
        case JUMP_IF_EVEN: pc = x & 1 ? pc + 1 : program + pc->operand; break;
        case TRIPLE: x = 3 * x + 1; pc++; break;
        case HALVE: x >>= 1; pc++; break;
        case INCREMENT: steps++; pc = program + pc->operand; break;
        case JUMP: pc = program + pc->operand; break;
        case NEXT: pc = ++n < limit ? program + pc->operand : pc + 1; break;
        default: printf("%ld\n", steps); return 0;
        }
    }
}
