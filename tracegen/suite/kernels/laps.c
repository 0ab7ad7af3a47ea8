/* Laps over working sets of random size, to teach a model what it costs to come back to data that some caches hold and
 * others do not. Arguments: seed, lines to visit in thousands, log2 of the largest working set in lines of 64 bytes. A run has
 * one to three working sets, each with one way to go over it, and visits them in turn; see `lap`. */
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long word;
typedef struct line { struct line *next; double value; word number, spare[5]; } line;
typedef struct { line *lines; unsigned *order; word count; int way, work, chains; } set;

static word state;
static set all[3];

static word draw(word below) {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return (state >> 11) % below;
}

/* What is done with each line: nothing more, a few integer operations, a chain in floating point, or a branch. */
#define SPEND(work, x, f, n) \
    switch (work) { \
    case 1: (n) = ((n) ^ (n) << 7) + ((x) >> 3); break; \
    case 2: (f) = (f) * 0.75 + (double)(long)((x) & 15); break; \
    case 3: if ((x) * 2654435761UL >> 5 & 4) (n) += (x); else (n) ^= 5; break; \
    default: break; \
    }
#define OVER(work, x) for (word i = 0; i < s->count; i++) { x; SPEND(work, v, f, n) }
#define EACH(x) switch (s->work) { \
    case 1: OVER(1, x) break; case 2: OVER(2, x) break; case 3: OVER(3, x) break; default: OVER(0, x) break; }

/* Once over the set: along its list, down its lines, through its table, at a stride, or in butterflies. */
static double lap(set *s) {
    line *a = s->lines, *p[4] = {a, a + s->count / 4, a + s->count / 2, a + s->count / 4 * 3};
    double f = 1.0;
    word n = 1, v = 0, mask = s->count - 1, half = s->count / 2;
    switch (s->way) {
    case 0: EACH(p[0] = p[0]->next; v = p[0]->number) break;                       /* one list */
    case 1: for (word i = 0; i < s->count / 4; i++) for (int c = 0; c < s->chains; c++) p[c] = p[c]->next; break;
    case 2: EACH(v = a[i].number) break;                                           /* read */
    case 3: EACH(a[i].number = i; v = i) break;                                    /* write */
    case 4: EACH(f += a[i].value * 3.0; v = a[i].number; a[i].value = f) break;    /* update */
    case 5: EACH(f += a[s->order[i]].value; v = i) break;                          /* gather */
    case 6: EACH(a[s->order[i]].number += i; v = i) break;                         /* scatter */
    case 7: EACH(v = a[(i * 17) & mask].number) break;                             /* stride */
    case 8: for (word i = 0; i < half; i++) {                                      /* butterflies */
                double x = a[i].value, y = a[i + half].value;
                a[i].value = x + y; a[i + half].value = (x - y) * 0.7;
            }
            break;
    case 9: for (word i = 0; i < half; i++) a[i + half] = a[i]; break;             /* copy */
    default: for (word i = 0; i < s->count; i++)                                   /* all of each line */
                 for (int k = 0; k < 5; k++) n += a[i].spare[k];
    }
    return f + (double)(n + v + p[0]->number + p[1]->number + p[2]->number + p[3]->number);
}

/* Its list goes through all lines in an order that no prefetcher follows (a generator of full period), or, of one set in
 * four, in the order of their addresses. */
static void lay_out(set *s, int largest) {
    s->count = 1UL << (5 + draw(largest - 4));
    s->lines = calloc(s->count, sizeof(line));
    s->order = calloc(s->count, sizeof(unsigned));
    if (!s->lines || !s->order) exit(1);
    s->way = (int)draw(11), s->work = (int)draw(4), s->chains = 1 + (int)draw(4);
    word at = 0, ordered = draw(4) == 0;
    for (word i = 0; i < s->count; i++) {
        word next = (ordered ? at + 1 : at * 1664525 + 1013904223) & (s->count - 1);
        s->lines[at].next = &s->lines[next];
        s->lines[at].number = next;
        s->order[i] = (unsigned)next;
        at = next;
    }
}

int main(int count, char **words) {
    state = (word)atol(words[1]) * 2654435761UL + 88172645463325252UL;
    for (int i = 0; i < 8; i++) draw(2);
    long left = 1000 * (count > 2 ? atol(words[2]) : 1000), sets = 1 + (long)draw(3);
    for (long k = 0; k < sets; k++) lay_out(&all[k], count > 3 ? atoi(words[3]) : 16);
    double sum = 0;
    while (left > 0)
        for (long k = 0; k < sets; k++) sum += lap(&all[k]), left -= (long)all[k].count;
    printf("%g\n", sum);
    return 0;
}
