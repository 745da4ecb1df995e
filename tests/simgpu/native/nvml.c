/*
 * libnvidia-ml.so.1, simulated: the part of NVML that a monitor needs, answered from the state that a test writes.
 *
 * The state is read anew whenever its file has changed, so that a driver is upgraded, a device lost or a call made to
 * hang under a program that runs. Functions are named in it without `nvml` and version, such as `SystemGetDriverVersion`.
 * Built with SIMGPU_STALE it is the library of a driver that is no longer loaded: every start fails with a mismatch.
 */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include "state.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define KEY_BYTES 96
#define LATENCY_SLICE_MS 20

#ifdef SIMGPU_STALE
#define OWN_VERSION "580.95.05"
#else
#define OWN_VERSION state_get(&state, "driver")
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct state state;
static struct stat seen;
static unsigned int initialized;

/* With the lock held. A file that is being replaced is read next time. */
static void refresh(void) {
    const char *path = getenv(STATE_VARIABLE);
    struct stat now = {0};
    if (path == NULL || stat(path, &now) != 0) now = (struct stat){0};
    if (memcmp(&now.st_mtim, &seen.st_mtim, sizeof now.st_mtim) == 0 && now.st_size == seen.st_size &&
        now.st_ino == seen.st_ino)
        return;
    state_free(&state);
    state_read(path, &state);
    seen = now;
}

static const char *key_of(char *key, const char *prefix, const char *name) {
    snprintf(key, KEY_BYTES, "%s.%s", prefix, name);
    return key;
}

static const char *device_key(char *key, unsigned int index, const char *name) {
    snprintf(key, KEY_BYTES, "device.%u.%s", index, name);
    return key;
}

static const char *device_value(unsigned int index, const char *name) {
    char key[KEY_BYTES];
    return state_get(&state, device_key(key, index, name));
}

static unsigned long long device_number(unsigned int index, const char *name, unsigned long long otherwise) {
    char key[KEY_BYTES];
    return state_number(&state, device_key(key, index, name), otherwise);
}

static unsigned int device_count(void) {
    unsigned int count = 0;
    while (device_value(count, "uuid") != NULL) count++;
    return count;
}

static unsigned long long latency_of(const char *function) {
    char key[KEY_BYTES];
    unsigned long long all = state_number(&state, "latency_ms", 0);
    return state_number(&state, key_of(key, "latency_ms", function), all);
}

/* Wait with the lock free and look again at every slice: a call that hangs goes on as soon as the state says so. */
static void wait_out(const char *function) {
    unsigned long long waited = 0;
    while (waited < latency_of(function)) {
        struct timespec slice = {.tv_nsec = LATENCY_SLICE_MS * 1000000L};
        pthread_mutex_unlock(&lock);
        nanosleep(&slice, NULL);
        waited += LATENCY_SLICE_MS;
        pthread_mutex_lock(&lock);
        refresh();
    }
}

/* Every function goes through here, lock held from now on; `leave` frees it. */
static nvmlReturn_t enter(const char *function) {
    char key[KEY_BYTES];
    pthread_mutex_lock(&lock);
    refresh();
    wait_out(function);
    unsigned long long all = state_number(&state, "error", NVML_SUCCESS);
    nvmlReturn_t told = (nvmlReturn_t)state_number(&state, key_of(key, "error", function), all);
    if (told != NVML_SUCCESS) return told;
    /* Without a state there is no simulated machine, which is what a machine without a driver says. */
    if (state_get(&state, "driver") == NULL) return NVML_ERROR_DRIVER_NOT_LOADED;
    return NVML_SUCCESS;
}

static nvmlReturn_t enter_initialized(const char *function) {
    nvmlReturn_t told = enter(function);
    return told == NVML_SUCCESS && initialized == 0 ? NVML_ERROR_UNINITIALIZED : told;
}

static nvmlReturn_t leave(nvmlReturn_t result) {
    pthread_mutex_unlock(&lock);
    return result;
}

/* A handle is the device's index plus one. */
static unsigned int index_of(nvmlDevice_t device) { return (unsigned int)((uintptr_t)device - 1); }

static nvmlReturn_t enter_device(const char *function, nvmlDevice_t device) {
    char key[KEY_BYTES], name[KEY_BYTES / 2];
    nvmlReturn_t told = enter_initialized(function);
    if (told != NVML_SUCCESS) return told;
    if (device == NULL || index_of(device) >= device_count()) return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(name, sizeof name, "error.%.32s", function);
    unsigned long long all = device_number(index_of(device), "error", NVML_SUCCESS);
    return (nvmlReturn_t)state_number(&state, device_key(key, index_of(device), name), all);
}

static nvmlReturn_t copy_text(const char *text, char *to, unsigned int length) {
    if (text == NULL) return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(text) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(to, text);
    return NVML_SUCCESS;
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

const char *nvmlErrorString(nvmlReturn_t result) {
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_OPERATING_SYSTEM: return "GPU access blocked by the operating system";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    nvmlReturn_t told = enter_initialized("SystemGetDriverVersion");
    return leave(told != NVML_SUCCESS ? told : copy_text(state_get(&state, "driver"), version, length));
}

/* The library's own version, which it tells without a start; nvidia-smi prints it when a start met a mismatch. */
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    const char *of_library = NULL;
    nvmlReturn_t told = enter("SystemGetNVMLVersion");
    if (told == NVML_SUCCESS) of_library = state_get(&state, "library");
    if (told == NVML_SUCCESS && of_library == NULL) of_library = OWN_VERSION;
    return leave(told != NVML_SUCCESS ? told : copy_text(of_library, version, length));
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    nvmlReturn_t told = enter_initialized("SystemGetCudaDriverVersion");
    if (told == NVML_SUCCESS) *version = (int)state_number(&state, "cuda", 13040);
    return leave(told);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    nvmlReturn_t told = enter_initialized("DeviceGetCount");
    if (told == NVML_SUCCESS) *count = device_count();
    return leave(told);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    nvmlReturn_t told = enter_initialized("DeviceGetHandleByIndex");
    if (told == NVML_SUCCESS && index >= device_count()) told = NVML_ERROR_INVALID_ARGUMENT;
    if (told == NVML_SUCCESS) *device = (nvmlDevice_t)(uintptr_t)(index + 1);
    return leave(told);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    nvmlReturn_t told = enter_initialized("DeviceGetHandleByUUID");
    if (told != NVML_SUCCESS) return leave(told);
    for (unsigned int index = 0; index < device_count(); index++) {
        if (strcmp(device_value(index, "uuid"), uuid) != 0) continue;
        *device = (nvmlDevice_t)(uintptr_t)(index + 1);
        return leave(NVML_SUCCESS);
    }
    return leave(NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    nvmlReturn_t told = enter_device("DeviceGetUUID", device);
    return leave(told != NVML_SUCCESS ? told : copy_text(device_value(index_of(device), "uuid"), uuid, length));
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    nvmlReturn_t told = enter_device("DeviceGetName", device);
    if (told != NVML_SUCCESS) return leave(told);
    const char *value = device_value(index_of(device), "name");
    return leave(copy_text(value ? value : "Simulated GPU", name, length));
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
    nvmlReturn_t told = enter_device("DeviceGetIndex", device);
    if (told == NVML_SUCCESS) *index = index_of(device);
    return leave(told);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) {
    nvmlReturn_t told = enter_device("DeviceGetMinorNumber", device);
    if (told == NVML_SUCCESS) *minor = (unsigned int)device_number(index_of(device), "minor", index_of(device));
    return leave(told);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    nvmlReturn_t told = enter_device("DeviceGetPciInfo", device);
    if (told != NVML_SUCCESS) return leave(told);
    *pci = (nvmlPciInfo_t){.bus = index_of(device) + 1};
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT, 0, pci->bus & 0xff, 0);
    snprintf(pci->busId, sizeof pci->busId, NVML_DEVICE_PCI_BUS_ID_FMT, 0, pci->bus & 0xff, 0);
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    nvmlReturn_t told = enter_device("DeviceGetMemoryInfo", device);
    if (told != NVML_SUCCESS) return leave(told);
    unsigned long long total = device_number(index_of(device), "memory_total", 0);
    unsigned long long used = device_number(index_of(device), "memory_used", 0);
    *memory = (nvmlMemory_t){.total = total, .used = used, .free = total - used};
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    nvmlMemory_t first;
    if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t told = nvmlDeviceGetMemoryInfo(device, &first);
    if (told != NVML_SUCCESS) return told;
    *memory = (nvmlMemory_v2_t){.version = nvmlMemory_v2, .total = first.total, .used = first.used, .free = first.free};
    return told;
}

struct process {
    unsigned int pid, sm_percent;
    unsigned long long used;
};

/* `PID BYTES [SM PERCENT]`; the n-th of a device, or 0. */
static int read_process(unsigned int index, const char *kind, size_t n, struct process *process) {
    char key[KEY_BYTES];
    const char *value = state_nth(&state, device_key(key, index, kind), n);
    *process = (struct process){0};
    return value && sscanf(value, "%u %llu %u", &process->pid, &process->used, &process->sm_percent) >= 2;
}

static nvmlReturn_t list_processes(nvmlDevice_t device, const char *kind, unsigned int *count, nvmlProcessInfo_t *infos) {
    struct process process;
    unsigned int found = 0, room = *count;
    while (read_process(index_of(device), kind, found, &process)) {
        if (infos && found < room)
            infos[found] = (nvmlProcessInfo_t){.pid = process.pid,
                                               .usedGpuMemory = process.used,
                                               .gpuInstanceId = 0xFFFFFFFF,
                                               .computeInstanceId = 0xFFFFFFFF};
        found++;
    }
    *count = found;
    return found > room || (infos == NULL && found > 0) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) {
    nvmlReturn_t told = enter_device("DeviceGetComputeRunningProcesses", device);
    return leave(told != NVML_SUCCESS ? told : list_processes(device, "process", count, infos));
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) {
    nvmlReturn_t told = enter_device("DeviceGetGraphicsRunningProcesses", device);
    return leave(told != NVML_SUCCESS ? told : list_processes(device, "graphics_process", count, infos));
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos) {
    return nvmlDeviceGetGraphicsRunningProcesses_v3(device, count, infos);
}

static unsigned long long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

/* One sample a process, taken now. As in NVML, no process at all is Not Found. */
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                             unsigned int *count, unsigned long long since) {
    (void)since;
    struct process process;
    nvmlReturn_t told = enter_device("DeviceGetProcessUtilization", device);
    if (told != NVML_SUCCESS) return leave(told);
    unsigned int found = 0, room = *count;
    for (; read_process(index_of(device), "process", found, &process); found++)
        if (samples && found < room)
            samples[found] = (nvmlProcessUtilizationSample_t){
                .pid = process.pid, .timeStamp = now_us(), .smUtil = process.sm_percent};
    *count = found;
    if (found == 0) return leave(NVML_ERROR_NOT_FOUND);
    return leave(samples == NULL || found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}
