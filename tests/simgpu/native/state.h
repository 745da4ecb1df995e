/*
 * The state that a test writes and every simulated program reads: lines of `key = value`, `#` comments, blank lines.
 *
 * A key may come more than once. What is not there is not simulated: each reader has a default for it.
 */
#ifndef SIMGPU_STATE_H
#define SIMGPU_STATE_H

#include <stddef.h>
#include <sys/stat.h>

/* Names the state file; without it nothing is simulated beyond an idle machine. */
#define STATE_VARIABLE "SIMGPU_STATE"

struct entry {
    char *key;
    char *value;
};

struct state {
    char *text; /* what keys and values point into */
    struct entry *entries; /* by key, and in the order of the file for each */
    size_t count;
};

/* Read a file; one that is not there, or a path that is NULL, gives a state without entries. Returns 0, or -1. */
int state_read(const char *path, struct state *state);
void state_free(struct state *state);

/* The text of a file, up to a bound; that of one which is not there, or of NULL, is empty. Free it. */
char *read_text(const char *path);
/* Whether a file is another than at the last look, which `seen` keeps; one that is being replaced shows next time. */
int has_changed(const char *path, struct stat *seen);

/* The value of the n-th entry with a key, or NULL. */
const char *state_nth(const struct state *state, const char *key, size_t n);
/* The last value of a key, or NULL. */
const char *state_get(const struct state *state, const char *key);
/* The last value of a key as a whole number, or `otherwise` where there is none. */
unsigned long long state_number(const struct state *state, const char *key, unsigned long long otherwise);

#endif
