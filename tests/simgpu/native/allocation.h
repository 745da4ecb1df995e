/*
 * What a process started as simgpu-run holds of which GPUs: its arguments, as read by itself and by the simulated NVML.
 */
#ifndef SIMGPU_ALLOCATION_H
#define SIMGPU_ALLOCATION_H

/* The name of such a process in /proc/PID/comm from the moment it holds memory; a child that it starts has another. */
#define ALLOCATED_NAME "simgpu-process"

struct allocation {
    const char *gpus; /* UUIDs, between commas */
    unsigned long long bytes; /* on each */
    unsigned int sm_percent;
    int is_graphics;
    char **command; /* the arguments after `--`, or their end */
};

/* Read arguments up to a NULL, without the program's name. Returns NULL, or the argument that is wrong or missing. */
const char *allocation_parse(char **arguments, struct allocation *allocation);
int allocation_is_on(const struct allocation *allocation, const char *uuid);

#endif
