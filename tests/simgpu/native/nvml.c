/*
 * libnvidia-ml.so.1, simulated: the part of NVML that a monitor needs, answered from the state that a test writes.
 *
 * The state is read anew whenever its file has changed, so that a driver is upgraded, a device lost or a call made to
 * hang under a program that runs. Here are the functions about the system and what a device is; nvml_processes.c has
 * those about who uses it, and nvml_limits.c those of r615 about memory limits, left out of the library of 580.
 * Built with SIMGPU_STALE it is the library of a driver that is no longer loaded: every start fails with a mismatch.
 */
#include "session.h"

#include <stdio.h>
#include <string.h>

#ifdef SIMGPU_STALE
#define OWN_VERSION "580.95.05"
#else
#define OWN_VERSION state_get(&state, "driver")
#endif

static nvmlReturn_t copy_text(const char *text, char *to, unsigned int length) {
    if (text == NULL) return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(text) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(to, text);
    return NVML_SUCCESS;
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
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument Version Mismatch";
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
    if (told == NVML_SUCCESS) *device = handle_of(index);
    return leave(told);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    nvmlReturn_t told = enter_initialized("DeviceGetHandleByUUID");
    if (told != NVML_SUCCESS) return leave(told);
    for (unsigned int index = 0; index < device_count(); index++) {
        if (strcmp(device_value(index, "uuid"), uuid) != 0) continue;
        *device = handle_of(index);
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

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    nvmlReturn_t told = enter_device("DeviceGetMigMode", device);
    if (told == NVML_SUCCESS) *current = *pending = (unsigned int)device_number(index_of(device), "mig", 0);
    return leave(told);
}
