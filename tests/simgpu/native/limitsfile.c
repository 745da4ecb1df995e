#define _GNU_SOURCE
#include "limitsfile.h"

#include "state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define IDENTITY_BYTES 64
#define ANY_IDENTITY "-"

/* The path of a neighbour of the state file; free it. NULL without a state. */
static char *beside_state(const char *ending) {
    const char *state = getenv(STATE_VARIABLE);
    char *path = NULL;
    if (state && asprintf(&path, "%s.limits%s", state, ending) < 0) abort();
    return path;
}

/* A file system may give the number of a removed directory to the next, but not its time of birth. */
static int identify(const char *directory, char *identity) {
    struct statx found;
    if (statx(AT_FDCWD, directory, 0, STATX_INO | STATX_BTIME, &found) != 0) return -1;
    snprintf(identity, IDENTITY_BYTES, "%llu.%lld.%u", (unsigned long long)found.stx_ino,
             (long long)found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
    return 0;
}

int limit_holds(const struct limit *limit) {
    char identity[IDENTITY_BYTES];
    if (identify(limit->directory, identity) != 0) return 0;
    return strcmp(limit->identity, ANY_IDENTITY) == 0 || strcmp(limit->identity, identity) == 0;
}

static int compare(const void *one, const void *other) {
    const struct limit *first = one, *second = other;
    int order = strcmp(first->uuid, second->uuid);
    return order ? order : strcmp(first->directory, second->directory);
}

/* Cuts the line into its words. Returns whether it had them all. */
static int parse(char *line, struct limit *limit) {
    const char *soft, *hard;
    limit->uuid = strsep(&line, " ");
    soft = strsep(&line, " ");
    hard = strsep(&line, " ");
    limit->identity = strsep(&line, " ");
    limit->directory = line;
    if (limit->directory == NULL) return 0;
    limit->soft = strtoull(soft, NULL, 10);
    limit->hard = strtoull(hard, NULL, 10);
    return 1;
}

void limits_read(struct limits *limits) {
    char *path = beside_state("");
    *limits = (struct limits){.text = read_text(path)};
    free(path);
    size_t lines = 0;
    for (const char *at = limits->text; (at = strchr(at, '\n')) != NULL; at++) lines++;
    limits->entries = calloc(lines + 1, sizeof *limits->entries);
    if (limits->entries == NULL) abort();
    char *rest = limits->text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && limits->count <= lines;)
        if (parse(line, &limits->entries[limits->count])) limits->count++;
    qsort(limits->entries, limits->count, sizeof *limits->entries, compare);
}

void limits_free(struct limits *limits) {
    free(limits->entries);
    free(limits->text);
    *limits = (struct limits){0};
}

const struct limit *limits_find(const char *uuid, const char *directory) {
    static struct limits known;
    static struct stat seen;
    char *path = beside_state("");
    if (has_changed(path, &seen)) {
        limits_free(&known);
        limits_read(&known);
    }
    free(path);
    struct limit wanted = {.uuid = uuid, .directory = directory};
    const struct limit *found = bsearch(&wanted, known.entries, known.count, sizeof wanted, compare);
    return found && limit_holds(found) ? found : NULL;
}

static void write_limit(FILE *file, const struct limit *limit) {
    fprintf(file, "%s %llu %llu %s %s\n", limit->uuid, limit->soft, limit->hard, limit->identity, limit->directory);
}

/* With the file's lock held: the entries that still hold, and this one in the place of that before. */
static int replace(const struct limit *limit) {
    char *path = beside_state(""), *fresh = beside_state(".new");
    FILE *file = fopen(fresh, "we");
    struct limits before;
    limits_read(&before);
    for (size_t i = 0; file && i < before.count; i++)
        if (compare(&before.entries[i], limit) != 0 && limit_holds(&before.entries[i]))
            write_limit(file, &before.entries[i]);
    if (file) write_limit(file, limit);
    int result = file && fclose(file) == 0 ? rename(fresh, path) : -1;
    limits_free(&before);
    free(path);
    free(fresh);
    return result;
}

int limits_put(const char *uuid, const char *directory, unsigned long long soft, unsigned long long hard) {
    char identity[IDENTITY_BYTES];
    char *path = beside_state(".lock");
    int lock = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    free(path);
    if (lock < 0) return -1;
    struct limit limit = {.uuid = uuid, .identity = identity, .directory = directory, .soft = soft, .hard = hard};
    int result = flock(lock, LOCK_EX) == 0 && identify(directory, identity) == 0 ? replace(&limit) : -1;
    close(lock);
    return result;
}
