#include "state.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No test describes a machine in more; a file beyond it is a mistake. */
#define MAX_BYTES (1 << 20)

static char *read_text(const char *path) {
    FILE *file = path ? fopen(path, "re") : NULL;
    char *text = malloc(MAX_BYTES + 1);
    if (text == NULL) abort();
    size_t length = file ? fread(text, 1, MAX_BYTES, file) : 0;
    if (file) fclose(file);
    text[length] = '\0';
    return text;
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

int state_read(const char *path, struct state *state) {
    *state = (struct state){.text = read_text(path)};
    char *rest = state->text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        line = trimmed(line);
        char *equals = strchr(line, '=');
        if (*line == '\0' || *line == '#') continue;
        if (equals == NULL) {
            errno = EINVAL;
            return -1;
        }
        *equals = '\0';
        keep(state, trimmed(line), trimmed(equals + 1));
    }
    return 0;
}

void state_free(struct state *state) {
    free(state->entries);
    free(state->text);
    *state = (struct state){0};
}

const char *state_nth(const struct state *state, const char *key, size_t n) {
    for (size_t i = 0; i < state->count; i++)
        if (strcmp(state->entries[i].key, key) == 0 && n-- == 0) return state->entries[i].value;
    return NULL;
}

const char *state_get(const struct state *state, const char *key) {
    for (size_t i = state->count; i-- > 0;)
        if (strcmp(state->entries[i].key, key) == 0) return state->entries[i].value;
    return NULL;
}

unsigned long long state_number(const struct state *state, const char *key, unsigned long long otherwise) {
    const char *value = state_get(state, key);
    return value ? strtoull(value, NULL, 0) : otherwise;
}
