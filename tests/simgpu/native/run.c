/*
 * simgpu-run: a real process that holds simulated GPU memory, on the host or in a container.
 *
 *   simgpu-run --gpu=UUID[,UUID] [--memory=512Mi] [--sm=30] [--graphics] [-- COMMAND...]
 *
 * The simulated NVML finds it in /proc and reads its arguments there, so that its PID is the one of whoever looks, and
 * no file need be shared. It is static because the images of tests hold no libraries. With a command it stays beside
 * it, passes SIGTERM on and ends as that does; without one it waits for the signal.
 *
 * Where it can reach the state it obeys the hard limit of its cgroup, as cuMemAlloc does: by its own size alone, not by
 * what others in the cgroup hold.
 */
#define _GNU_SOURCE
#include "allocation.h"
#include "cgroup.h"
#include "limitsfile.h"
#include "state.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The lowest hard limit of this process' cgroup on a GPU it asks for. A container does not see the directory. */
static unsigned long long hard_limit(const struct allocation *allocation) {
    unsigned long long lowest = ~0ULL;
    struct limits limits;
    limits_read(&limits);
    char *own = read_text("/proc/self/cgroup");
    for (size_t i = 0; i < limits.count; i++)
        if (limits.entries[i].hard < lowest && allocation_is_on(allocation, limits.entries[i].uuid) &&
            cgroup_is_of(limits.entries[i].directory, own))
            lowest = limits.entries[i].hard;
    free(own);
    limits_free(&limits);
    return lowest;
}

/* Start the command, which waits until the pipe is closed: it is to find the memory allocated. */
static pid_t start(char **command, const int *ready, const sigset_t *signals) {
    pid_t child = fork();
    char byte;
    if (child < 0) abort();
    if (child > 0) return child;
    close(ready[1]);
    if (read(ready[0], &byte, 1) < 0) abort();
    sigprocmask(SIG_UNBLOCK, signals, NULL);
    execvp(command[0], command);
    perror(command[0]);
    _exit(127);
}

/* As the first process of a container it is also the parent of every orphan. Returns the child's status, or -1. */
static int collect(pid_t child) {
    int status, result = -1;
    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
        if (ended == child) result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

static int stay(pid_t child, const sigset_t *signals) {
    for (int status;;) {
        int number = sigwaitinfo(signals, NULL);
        if (number == SIGCHLD && (status = collect(child)) >= 0) return status;
        if ((number == SIGTERM || number == SIGINT) && child == 0) return 0;
        if ((number == SIGTERM || number == SIGINT) && child > 0) kill(child, number);
    }
}

int main(int argc, char **argv) {
    (void)argc;
    struct allocation allocation;
    int ready[2];
    sigset_t signals;
    const char *wrong = allocation_parse(argv + 1, &allocation);
    if (wrong) {
        fprintf(stderr, "simgpu-run: %s is missing or not understood; usage: simgpu-run --gpu=UUID[,UUID] "
                        "[--memory=BYTES, or with Ki, Mi, Gi] [--sm=PERCENT] [--graphics] [-- COMMAND...]\n", wrong);
        return 2;
    }
    unsigned long long limit = hard_limit(&allocation);
    if (allocation.bytes > limit) {
        fprintf(stderr, "simulated: out of memory: asked for %llu bytes on %s, hard limit %llu bytes\n",
                allocation.bytes, allocation.gpus, limit);
        return 1;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    if (pipe2(ready, O_CLOEXEC) != 0) abort();
    pid_t child = *allocation.command ? start(allocation.command, ready, &signals) : 0;
    prctl(PR_SET_NAME, ALLOCATED_NAME);
    printf("simulated: %llu bytes on %s\n", allocation.bytes, allocation.gpus);
    fflush(stdout);
    close(ready[1]);
    return stay(child, &signals);
}
