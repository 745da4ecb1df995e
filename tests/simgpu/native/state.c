#include "state.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No test describes a machine in more; a file beyond it is a mistake. */
#define MAX_BYTES (1 << 20)

char *read_text(const char *path) {
    FILE *file = path ? fopen(path, "re") : NULL;
    char *text = malloc(MAX_BYTES + 1);
    if (text == NULL) abort();
    size_t length = file ? fread(text, 1, MAX_BYTES, file) : 0;
    if (file) fclose(file);
    text[length] = '\0';
    return text;
}

int has_changed(const char *path, struct stat *seen) {
    struct stat now = {0};
    if (path == NULL || stat(path, &now) != 0) now = (struct stat){0};
    int is_same = memcmp(&now.st_mtim, &seen->st_mtim, sizeof now.st_mtim) == 0 && now.st_size == seen->st_size &&
                  now.st_ino == seen->st_ino;
    *seen = now;
    return !is_same;
}

static char *trimmed(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) *--end = '\0';
    return text;
}

static void keep(struct state *state, char *key, char *value) {
    struct entry *grown = realloc(state->entries, (state->count + 1) * sizeof *grown);
    if (grown == NULL) abort();
    state->entries = grown;
    grown[state->count++] = (struct entry){.key = key, .value = value};
}

/* Keys and values lie in one text, so that their addresses have the order of the file. */
static int compare(const void *one, const void *other) {
    const struct entry *first = one, *second = other;
    int order = strcmp(first->key, second->key);
    return order ? order : (first->key > second->key) - (first->key < second->key);
}

int state_read(const char *path, struct state *state) {
    *state = (struct state){.text = read_text(path)};
    char *rest = state->text;
    int result = 0;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && result == 0;) {
        line = trimmed(line);
        char *equals = strchr(line, '=');
        if (*line == '\0' || *line == '#') continue;
        if (equals == NULL) {
            result = -1;
            continue;
        }
        *equals = '\0';
        keep(state, trimmed(line), trimmed(equals + 1));
    }
    if (state->count > 0) qsort(state->entries, state->count, sizeof *state->entries, compare);
    return result;
}

void state_free(struct state *state) {
    free(state->entries);
    free(state->text);
    *state = (struct state){0};
}

/* The place of the first entry whose key is not before `key`, or, with `after`, behind it. */
static size_t place_of(const struct state *state, const char *key, int after) {
    size_t from = 0, to = state->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(state->entries[middle].key, key);
        if (order < 0 || (after && order == 0)) from = middle + 1;
        else to = middle;
    }
    return from;
}

const char *state_nth(const struct state *state, const char *key, size_t n) {
    size_t place = place_of(state, key, 0) + n;
    return place < state->count && strcmp(state->entries[place].key, key) == 0 ? state->entries[place].value : NULL;
}

const char *state_get(const struct state *state, const char *key) {
    size_t behind = place_of(state, key, 1);
    return behind > 0 && strcmp(state->entries[behind - 1].key, key) == 0 ? state->entries[behind - 1].value : NULL;
}

unsigned long long state_number(const struct state *state, const char *key, unsigned long long otherwise) {
    const char *value = state_get(state, key);
    return value ? strtoull(value, NULL, 0) : otherwise;
}
