/*
 * Who uses the simulated devices: processes that the state names, and real ones that were started as simgpu-run.
 *
 * Looking through /proc takes milliseconds, and a reading of all devices asks hundreds of times: what was seen counts
 * for 10 ms.
 */
#ifndef SIMGPU_PROCESSES_H
#define SIMGPU_PROCESSES_H

#include <stddef.h>

struct process {
    unsigned int device, pid, sm_percent;
    int is_graphics;
    unsigned long long used; /* all ones where NVML does not tell */
    char *cgroups; /* the text of its /proc/PID/cgroup, read when first wanted */
};

/* All of them, those of a device in the order of the state. To be read before the next call. */
const struct process *processes(size_t *count);

/* What a cgroup and those below it use of a device, by the word of the state or else by its processes. */
unsigned long long used_by_cgroup(unsigned int device, const char *directory, const char *below_root);

#endif
