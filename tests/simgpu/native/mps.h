/*
 * What the two halves of the simulated r615 control daemon share.
 */
#ifndef SIMGPU_MPS_H
#define SIMGPU_MPS_H

#include "state.h"

#include <sys/types.h>

/* The real control daemon, the helper and the checker lie beside the wrapper's folder. */
#define REAL_PROGRAM "real/usr/bin/nvidia-cuda-mps-control"
#define HELPER_PROGRAM "libexec/simgpu-mps-helper"
#define CHECK_PROGRAM "libexec/simgpu-mps-check"

/* NVIDIA's: 107 usable characters of a socket path less 24 for the longest name below the pipe directory. */
#define MAX_PIPE_DIRECTORY 83

const char *beside_wrapper(const char *relative);
const char *pipe_directory(void);
void read_state(struct state *state);
void pause_ms(unsigned long long milliseconds);

/* Run the real program with commands on its input; its output goes to `output` (-1 = ours). Returns a wait status. */
int run_real(const char *commands, int output);

/* The clients attached by word of the state: live, and not terminated since. Returns how many; fills at most `room`. */
size_t attached_clients(const struct state *state, pid_t *pids, size_t room);
/* Remember for `attached_clients` that a client was terminated. */
int mark_terminated(pid_t pid);

#endif
