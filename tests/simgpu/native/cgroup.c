#define _GNU_SOURCE
#include "cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MARK "cgroup.controllers"

const char *cgroup_below_root(const char *directory) {
    char mark[PATH_MAX];
    /* In the kernel's tree every directory has the file: the first from above is the root. */
    for (const char *end = directory; *end != '\0';) {
        end = strchrnul(end + 1, '/');
        int length = snprintf(mark, sizeof mark, "%.*s/%s", (int)(end - directory), directory, MARK);
        if (length < (int)sizeof mark && access(mark, F_OK) == 0) return end;
    }
    return NULL;
}

/* The path in one line `hierarchy:controllers:path`, or NULL. */
static const char *path_in(const char *line) {
    const char *controllers = strchr(line, ':');
    const char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    const char *end = strchrnul(line, '\n');
    return path && path < end ? path + 1 : NULL;
}

static const char *next_line(const char *line) {
    const char *end = strchrnul(line, '\n');
    return *end == '\0' ? end : end + 1;
}

int cgroup_holds(const char *below_root, const char *proc_text) {
    size_t length = strlen(below_root);
    for (const char *line = proc_text; *line != '\0'; line = next_line(line)) {
        const char *path = path_in(line);
        if (path && strncmp(path, below_root, length) == 0 && strchr("/\n", path[length])) return 1;
    }
    return 0;
}

int cgroup_is_of(const char *directory, const char *proc_text) {
    size_t room = strlen(directory);
    for (const char *line = proc_text; *line != '\0'; line = next_line(line)) {
        const char *path = path_in(line);
        size_t length = path ? (size_t)(strchrnul(path, '\n') - path) : 0;
        if (length > 1 && length <= room && strncmp(directory + room - length, path, length) == 0) return 1;
    }
    return 0;
}
