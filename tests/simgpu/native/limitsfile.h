/*
 * The memory limits that were set, as a driver keeps them: in a file beside the state, since many processes share it.
 *
 * Lines of `UUID SOFT HARD IDENTITY DIRECTORY`. An entry holds while its directory is the one it was set for: a cgroup
 * that was removed took its limits along, also when there is another of its name. The identity `-` is any directory's.
 */
#ifndef SIMGPU_LIMITSFILE_H
#define SIMGPU_LIMITSFILE_H

#include <stddef.h>

struct limit {
    const char *uuid, *identity, *directory;
    unsigned long long soft, hard;
};

struct limits {
    char *text; /* what the entries point into */
    struct limit *entries; /* by UUID and directory */
    size_t count;
};

/* Read the file beside the state; it may not be there. */
void limits_read(struct limits *limits);
void limits_free(struct limits *limits);

/* Whether the directory still is the one for which the limit was set. */
int limit_holds(const struct limit *limit);
/* Find in the newest file, read again only when changed, a limit that holds; or NULL. */
const struct limit *limits_find(const char *uuid, const char *directory);
/* Set a limit for a directory that is there. Returns 0, or -1. */
int limits_put(const char *uuid, const char *directory, unsigned long long soft, unsigned long long hard);

#endif
