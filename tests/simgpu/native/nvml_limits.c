/*
 * Memory limits of a cgroup on a device, as r615 has them. Newer drivers alone have these functions.
 */
#include "session.h"

#include "cgroup.h"
#include "limitsfile.h"
#include "processes.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_DRIVER 615

/* What keeps a device from having limits at all. */
static nvmlReturn_t support_of(unsigned int device) {
    if (state_number(&state, "memory_limits", 1) == 0 || device_number(device, "mig", 0) != 0 ||
        strtoul(state_get(&state, "driver"), NULL, 10) < FIRST_DRIVER)
        return NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* A cgroup's own path, without links, and its part below the root of its tree. */
static nvmlReturn_t open_cgroup(const char *name, char *directory, const char **below_root) {
    struct stat found;
    if (name == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (realpath(name, directory) == NULL || stat(directory, &found) != 0 || !S_ISDIR(found.st_mode))
        return NVML_ERROR_OPERATING_SYSTEM;
    *below_root = cgroup_below_root(directory);
    return *below_root ? NVML_SUCCESS : NVML_ERROR_OPERATING_SYSTEM;
}

static int is_beyond(unsigned long long limit, unsigned long long total) {
    return limit != NVML_DEVICE_MEMORY_LIMIT_MAX && limit > total;
}

static nvmlReturn_t set_limits(unsigned int device, const nvmlSetMemoryLimits_v1_t *limits) {
    char directory[PATH_MAX];
    const char *below_root;
    unsigned long long total = device_number(device, "memory_total", 0);
    if (geteuid() != 0) return NVML_ERROR_NO_PERMISSION;
    if (limits == NULL || limits->softLimit > limits->hardLimit || is_beyond(limits->softLimit, total) ||
        is_beyond(limits->hardLimit, total))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t told = support_of(device);
    if (told == NVML_SUCCESS) told = open_cgroup(limits->nameSpace, directory, &below_root);
    if (told != NVML_SUCCESS) return told;
    int result = limits_put(device_value(device, "uuid"), directory, limits->softLimit, limits->hardLimit);
    return result == 0 ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

static nvmlReturn_t get_limits(unsigned int device, nvmlGetMemoryLimits_v1_t *limits) {
    char directory[PATH_MAX];
    const char *below_root;
    if (limits == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t told = support_of(device);
    if (told == NVML_SUCCESS) told = open_cgroup(limits->nameSpace, directory, &below_root);
    if (told != NVML_SUCCESS) return told;
    const struct limit *found = limits_find(device_value(device, "uuid"), directory);
    if (found == NULL) return NVML_ERROR_NOT_FOUND;
    limits->softLimit = found->soft;
    limits->hardLimit = found->hard;
    limits->currentUsed = used_by_cgroup(device, directory, below_root);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t *limits) {
    nvmlReturn_t told = enter_device("DeviceSetMemoryLimits", device);
    return leave(told != NVML_SUCCESS ? told : set_limits(index_of(device), limits));
}

nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits) {
    nvmlReturn_t told = enter_device("DeviceGetMemoryLimits", device);
    return leave(told != NVML_SUCCESS ? told : get_limits(index_of(device), limits));
}
