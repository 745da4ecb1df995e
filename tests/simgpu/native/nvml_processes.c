/*
 * Who uses a device: the lists of processes, and samples of how much of the SMs each used.
 */
#include "session.h"

#include "processes.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_RACES 64
#define NO_INSTANCE 0xFFFFFFFF

/* How often a list has grown under its reader since the state was read: the state says how often it is to. */
struct race {
    const char *function; /* the text is the same for every call */
    unsigned int device;
    unsigned long long times;
};

static int has_grown(unsigned int device, const char *function) {
    static struct race races[MAX_RACES];
    static unsigned long of_generation;
    char name[KEY_BYTES / 2];
    if (of_generation != generation) memset(races, 0, sizeof races);
    of_generation = generation;
    snprintf(name, sizeof name, "race.%.40s", function);
    unsigned long long wanted = device_number(device, name, 0);
    for (struct race *race = races; wanted > 0 && race < races + MAX_RACES; race++) {
        if (race->function == NULL) *race = (struct race){.function = function, .device = device};
        if (race->function == function && race->device == device) return race->times < wanted && ++race->times;
    }
    return 0;
}

/* The answer about a list of this length to a caller with room for `*count`; none is room for nothing. */
static nvmlReturn_t told_size(unsigned int device, const char *function, unsigned int length, unsigned int *count) {
    unsigned int room = *count;
    *count = length;
    if (room > 0 && has_grown(device, function)) {
        *count = (length > room ? length : room) + 1;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    return length > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static nvmlReturn_t list(const char *function, nvmlDevice_t device, int is_graphics, unsigned int *count,
                         nvmlProcessInfo_t *infos) {
    nvmlReturn_t told = enter_device(function, device);
    if (told != NVML_SUCCESS) return leave(told);
    size_t number;
    const struct process *all = processes(&number);
    unsigned int length = 0;
    if (infos == NULL) *count = 0;
    for (size_t i = 0; i < number; i++) {
        if (all[i].device != index_of(device) || all[i].is_graphics != is_graphics) continue;
        if (length++ >= *count) continue;
        infos[length - 1] = (nvmlProcessInfo_t){.pid = all[i].pid, .usedGpuMemory = all[i].used,
                                                .gpuInstanceId = NO_INSTANCE, .computeInstanceId = NO_INSTANCE};
    }
    return leave(told_size(index_of(device), function, length, count));
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) {
    return list("DeviceGetComputeRunningProcesses", device, 0, count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) {
    return list("DeviceGetGraphicsRunningProcesses", device, 1, count, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos) {
    return nvmlDeviceGetGraphicsRunningProcesses_v3(device, count, infos);
}

static unsigned long long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

/* Samples newer than `since` go where there is room for them. */
struct sampling {
    nvmlProcessUtilizationSample_t *to;
    unsigned int room, length;
    unsigned long long since;
};

static void take(struct sampling *sampling, nvmlProcessUtilizationSample_t sample) {
    if (sample.timeStamp <= sampling->since) return;
    if (sampling->length++ < sampling->room) sampling->to[sampling->length - 1] = sample;
}

/* Entries `PID SM MICROSECONDS [MEMORY]`: samples of the past, of which a process may have several. */
static void take_told(unsigned int device, struct sampling *sampling) {
    const char *value;
    for (size_t n = 0; (value = device_nth(device, "sample", n)) != NULL; n++) {
        nvmlProcessUtilizationSample_t sample = {0};
        if (sscanf(value, "%u %u %llu %u", &sample.pid, &sample.smUtil, &sample.timeStamp, &sample.memUtil) >= 3)
            take(sampling, sample);
    }
}

/* Each process that uses the SMs has one sample beside those, taken now. As in NVML, one that does not has none. */
static void take_current(unsigned int device, struct sampling *sampling) {
    size_t number;
    const struct process *all = processes(&number);
    for (size_t i = 0; i < number; i++)
        if (all[i].device == device && all[i].sm_percent > 0)
            take(sampling, (nvmlProcessUtilizationSample_t){
                               .pid = all[i].pid, .timeStamp = now_us(), .smUtil = all[i].sm_percent});
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                             unsigned int *count, unsigned long long since) {
    static const char FUNCTION[] = "DeviceGetProcessUtilization";
    nvmlReturn_t told = enter_device(FUNCTION, device);
    unsigned int index = index_of(device);
    if (told == NVML_SUCCESS && device_number(index, "mig", 0) != 0) told = NVML_ERROR_NOT_SUPPORTED;
    if (told != NVML_SUCCESS) return leave(told);
    if (samples == NULL) *count = 0;
    struct sampling sampling = {.to = samples, .room = *count, .since = since};
    take_told(index, &sampling);
    take_current(index, &sampling);
    if (sampling.length == 0) return leave(NVML_ERROR_NOT_FOUND);
    return leave(told_size(index, FUNCTION, sampling.length, count));
}
