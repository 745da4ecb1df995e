/*
 * A call into the simulated NVML: one at a time, on the newest state, as slow and as wrong as that says.
 *
 * Every function begins with one of the `enter`s, which hold the lock from then on, and ends with `leave`, which frees
 * it. What else is here is to be read in between.
 */
#ifndef SIMGPU_SESSION_H
#define SIMGPU_SESSION_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include "state.h"

#define KEY_BYTES 96

extern struct state state;
/* How often the state was read: what is derived from it, or counted against it, starts over with each. */
extern unsigned long generation;

/* A function is named without `nvml` and version, such as `SystemGetDriverVersion`. */
nvmlReturn_t enter(const char *function);
nvmlReturn_t enter_initialized(const char *function);
nvmlReturn_t enter_device(const char *function, nvmlDevice_t device);
nvmlReturn_t leave(nvmlReturn_t result);

unsigned int device_count(void);
/* A handle is the device's index plus one. */
nvmlDevice_t handle_of(unsigned int index);
unsigned int index_of(nvmlDevice_t device);

/* Values of the state's keys `device.INDEX.NAME`: the last, the n-th, the last as a number. */
const char *device_value(unsigned int index, const char *name);
const char *device_nth(unsigned int index, const char *name, size_t n);
unsigned long long device_number(unsigned int index, const char *name, unsigned long long otherwise);

#endif
