#define _GNU_SOURCE
#include "mps.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *beside_wrapper(const char *relative) {
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) {
        perror("simulated r615: /proc/self/exe");
        exit(1);
    }
    self[length] = '\0';
    char *path = NULL;
    if (asprintf(&path, "%s/../%s", dirname(self), relative) < 0) abort();
    return path;
}

const char *pipe_directory(void) {
    const char *path = getenv("CUDA_MPS_PIPE_DIRECTORY");
    return path ? path : "/tmp/nvidia-mps";
}

void read_state(struct state *state) {
    const char *path = getenv(STATE_VARIABLE);
    if (state_read(path, state) == 0) return;
    fprintf(stderr, "simulated r615: %s has a line without `=`\n", path);
    exit(1);
}

void pause_ms(unsigned long long milliseconds) {
    struct timespec left = {.tv_sec = (time_t)(milliseconds / 1000), .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

int run_real(const char *commands, int output) {
    int input[2];
    if (pipe(input) != 0) abort();
    pid_t child = fork();
    if (child < 0) abort();
    if (child == 0) {
        dup2(input[0], STDIN_FILENO);
        if (output >= 0) dup2(output, STDOUT_FILENO);
        close(input[0]);
        close(input[1]);
        const char *real = beside_wrapper(REAL_PROGRAM);
        execl(real, real, (char *)NULL);
        perror(real);
        _exit(127);
    }
    close(input[0]);
    signal(SIGPIPE, SIG_IGN);
    if (write(input[1], commands, strlen(commands)) < 0 && errno != EPIPE) abort();
    close(input[1]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

/* Beside the state, since the state is the test's to write. */
static const char *terminated_path(void) {
    const char *state = getenv(STATE_VARIABLE);
    char *path = NULL;
    if (state == NULL) return NULL;
    if (asprintf(&path, "%s.terminated", state) < 0) abort();
    return path;
}

int mark_terminated(pid_t pid) {
    const char *path = terminated_path();
    FILE *file = path ? fopen(path, "ae") : NULL;
    if (file == NULL) return -1;
    fprintf(file, "terminated = %d\n", pid);
    return fclose(file);
}

static int is_terminated(const struct state *terminated, const char *pid) {
    const char *value;
    for (size_t n = 0; (value = state_nth(terminated, "terminated", n)) != NULL; n++)
        if (strcmp(value, pid) == 0) return 1;
    return 0;
}

size_t attached_clients(const struct state *state, pid_t *pids, size_t room) {
    struct state terminated;
    state_read(terminated_path(), &terminated);
    size_t count = 0;
    const char *value;
    for (size_t n = 0; (value = state_nth(state, "mps.client", n)) != NULL; n++) {
        pid_t pid = (pid_t)strtol(value, NULL, 10);
        /* A process that ended is no client any more, whatever the state says. */
        if (pid <= 0 || kill(pid, 0) != 0 || is_terminated(&terminated, value)) continue;
        if (count < room) pids[count] = pid;
        count++;
    }
    state_free(&terminated);
    return count;
}
