#define _GNU_SOURCE
#include "session.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LATENCY_SLICE_MS 20

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stat seen;
static unsigned int initialized, devices;

struct state state;
unsigned long generation;

const char *device_nth(unsigned int index, const char *name, size_t n) {
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "device.%u.%s", index, name);
    return state_nth(&state, key, n);
}

const char *device_value(unsigned int index, const char *name) {
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "device.%u.%s", index, name);
    return state_get(&state, key);
}

unsigned long long device_number(unsigned int index, const char *name, unsigned long long otherwise) {
    const char *value = device_value(index, name);
    return value ? strtoull(value, NULL, 0) : otherwise;
}

unsigned int device_count(void) { return devices; }

nvmlDevice_t handle_of(unsigned int index) { return (nvmlDevice_t)(uintptr_t)(index + 1); }

unsigned int index_of(nvmlDevice_t device) { return (unsigned int)((uintptr_t)device - 1); }

/* With the lock held. */
static void refresh(void) {
    const char *path = getenv(STATE_VARIABLE);
    if (!has_changed(path, &seen)) return;
    state_free(&state);
    state_read(path, &state);
    generation++;
    for (devices = 0; device_value(devices, "uuid") != NULL;) devices++;
}

/* The value for one function, or else that for all. */
static unsigned long long number_of(const char *name, const char *function) {
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "%s.%s", name, function);
    return state_number(&state, key, state_number(&state, name, 0));
}

/* Wait with the lock free and look again at every slice: a call that hangs goes on as soon as the state says so. */
static void wait_out(const char *function) {
    unsigned long long waited = 0, latency;
    while (waited < (latency = number_of("latency_ms", function))) {
        unsigned long long slice = latency - waited < LATENCY_SLICE_MS ? latency - waited : LATENCY_SLICE_MS;
        struct timespec time = {.tv_nsec = (long)slice * 1000000L};
        pthread_mutex_unlock(&lock);
        nanosleep(&time, NULL);
        waited += slice;
        pthread_mutex_lock(&lock);
        refresh();
    }
}

nvmlReturn_t enter(const char *function) {
    pthread_mutex_lock(&lock);
    refresh();
    wait_out(function);
    nvmlReturn_t told = (nvmlReturn_t)number_of("error", function);
    if (told != NVML_SUCCESS) return told;
    /* Without a state there is no simulated machine, which is what a machine without a driver says. */
    if (state_get(&state, "driver") == NULL) return NVML_ERROR_DRIVER_NOT_LOADED;
    return NVML_SUCCESS;
}

nvmlReturn_t enter_initialized(const char *function) {
    nvmlReturn_t told = enter(function);
    return told == NVML_SUCCESS && initialized == 0 ? NVML_ERROR_UNINITIALIZED : told;
}

nvmlReturn_t enter_device(const char *function, nvmlDevice_t device) {
    char name[KEY_BYTES / 2];
    nvmlReturn_t told = enter_initialized(function);
    if (told != NVML_SUCCESS) return told;
    if (device == NULL || index_of(device) >= devices) return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(name, sizeof name, "error.%.40s", function);
    unsigned long long all = device_number(index_of(device), "error", NVML_SUCCESS);
    return (nvmlReturn_t)device_number(index_of(device), name, all);
}

nvmlReturn_t leave(nvmlReturn_t result) {
    pthread_mutex_unlock(&lock);
    return result;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    nvmlReturn_t told = enter("Init");
#ifdef SIMGPU_STALE
    told = NVML_ERROR_LIB_RM_VERSION_MISMATCH;
#endif
    if (told == NVML_SUCCESS) initialized++;
    return leave(told);
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
    nvmlReturn_t told = enter_initialized("Shutdown");
    if (told == NVML_SUCCESS) initialized--;
    return leave(told);
}
