/*
 * What the real control daemon of 550 does not do and r615 does, done beside it:
 *
 *   - It closes its input at once. Here `quit` is read from it, and its end is the end of the daemon.
 *   - It knows no named servers. Here the sockets of a configuration's servers are further names of the one socket.
 *   - Without a GPU it has no clients to wait for. Here `quit` waits for those that the state attaches.
 */
#define _GNU_SOURCE
#include "mps.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TICK_MS 20

static pid_t control;

/* Names of `[servers.NAME]` tables; the checker has seen to it that they are plain. */
static size_t read_servers(const char *path, char names[][64], size_t room) {
    FILE *file = *path ? fopen(path, "re") : NULL;
    char line[512];
    size_t count = 0;
    while (file && count < room && fgets(line, sizeof line, file))
        if (sscanf(line, " [servers.%63[a-z0-9_]]", names[count]) == 1) count++;
    if (file) fclose(file);
    return count;
}

static void link_socket(const char *directory) {
    char target[PATH_MAX], name[PATH_MAX];
    snprintf(target, sizeof target, "%s/control", pipe_directory());
    snprintf(name, sizeof name, "%s/control", directory);
    if ((mkdir(directory, 0755) != 0 && errno != EEXIST) || (unlink(name) != 0 && errno != ENOENT) ||
        link(target, name) != 0)
        fprintf(stderr, "simulated r615: cannot make %s: %s\n", name, strerror(errno));
}

static void link_servers(const char *configuration) {
    char names[16][64], directory[PATH_MAX];
    size_t count = read_servers(configuration, names, 16);
    for (size_t i = 0; i < count; i++) {
        snprintf(directory, sizeof directory, "%s/%s", pipe_directory(), names[i]);
        link_socket(directory);
        snprintf(directory, sizeof directory, "%s/%s/default", pipe_directory(), names[i]);
        link_socket(directory);
    }
}

/* The pid file is written after the sockets listen; that of a daemon before this one names another process. */
static int is_up(void) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/nvidia-cuda-mps-control.pid", pipe_directory());
    FILE *file = fopen(path, "re");
    int pid = 0;
    if (file == NULL) return 0;
    int found = fscanf(file, "%d", &pid) == 1 && pid == control;
    fclose(file);
    return found;
}

static void quit(int waits) {
    for (;; pause_ms(TICK_MS)) {
        struct state state;
        read_state(&state);
        size_t clients = attached_clients(&state, NULL, 0);
        int ignores = state_get(&state, "mps.ignores_quit") != NULL;
        state_free(&state);
        if (!waits || (clients == 0 && !ignores)) break;
    }
    run_real("quit\n", -1);
}

/* One line of input, without its end; 0 at the end of the input. */
static int read_line(char *line, size_t room) {
    size_t length = 0;
    char byte;
    while (read(STDIN_FILENO, &byte, 1) == 1) {
        if (byte == '\n') {
            line[length] = '\0';
            return 1;
        }
        if (length + 1 < room) line[length++] = byte;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    control = (pid_t)strtol(argv[1], NULL, 10);
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (!is_up()) {
        /* It may be told to go before it is up; an end of the input shows as POLLHUP at once, so do not spin. */
        if (poll(&input, 1, TICK_MS) > 0) pause_ms(TICK_MS);
    }
    link_servers(argv[2]);
    char line[256];
    while (read_line(line, sizeof line))
        if (strncmp(line, "quit", 4) == 0) quit(1);
    quit(0);
    return 0;
}
