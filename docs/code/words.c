/* Count the words of a file: words.c of the tutorial. The table has too few buckets, on purpose. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef BUCKETS
#define BUCKETS 16
#endif

struct entry { struct entry *next; char *word; long count; };
static struct entry *table[BUCKETS];

static unsigned hash(const char *word) {
    unsigned value = 5381;
    for (; *word; word++) value = value * 33 + (unsigned char)*word;
    return value % BUCKETS;
}

__attribute__((noinline)) static struct entry *find(const char *word) {
    struct entry **place = &table[hash(word)];
    for (struct entry *e = *place; e; e = e->next)
        if (strcmp(e->word, word) == 0) return e;
    struct entry *e = malloc(sizeof *e);
    *e = (struct entry){ *place, strdup(word), 0 };
    return *place = e;
}

int main(int argc, char **argv) {
    FILE *file = fopen(argc > 1 ? argv[1] : "/dev/stdin", "r");
    if (!file) { perror("words"); return 1; }
    char word[64];
    int length = 0, distinct = 0;
    for (int c; (c = getc(file)) != EOF;) {
        if (isalpha(c)) { if (length < 63) word[length++] = (char)tolower(c); continue; }
        if (!length) continue;
        word[length] = 0;
        length = 0;
        if (find(word)->count++ == 0) distinct++;
    }
    printf("%d distinct words\n", distinct);
    return 0;
}
