/*
 * What the driver's own answers take: the questions that metricsd asks NVML in a cycle, asked from C, and nothing else.
 *
 *     metrics_floor CYCLES PAUSE_MS < queries      a query is a line: GPU index, space, cgroup directory
 *
 * Prints the seconds of each cycle, a line each. Lists are read into room enough for all, so that each costs one call.
 */
#include <nvml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_DEVICES 64
#define MAX_PROCESSES 4096
#define MAX_QUERIES 4096
#define MAX_PATH 4096

struct query {
    unsigned int index;
    char *cgroup;
};

static struct query queries[MAX_QUERIES];
static size_t query_count;
static nvmlDevice_t devices[MAX_DEVICES];

static void must(nvmlReturn_t code, const char *what) {
    if (code != NVML_SUCCESS) {
        fprintf(stderr, "metrics_floor: %s: %s\n", what, nvmlErrorString(code));
        exit(1);
    }
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void read_queries(void) {
    char line[MAX_PATH];
    while (query_count < MAX_QUERIES && fgets(line, sizeof line, stdin)) {
        char *path;
        queries[query_count].index = (unsigned int)strtoul(line, &path, 10);
        path[strcspn(path, "\n")] = '\0';
        queries[query_count++].cgroup = strdup(path + 1);
    }
}

static void read_device(unsigned int index, unsigned long long since) {
    static nvmlProcessUtilizationSample_t samples[MAX_PROCESSES];
    static nvmlProcessInfo_t processes[MAX_PROCESSES];
    char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
    nvmlMemory_t memory;
    unsigned int minor, count;

    must(nvmlDeviceGetHandleByIndex(index, &devices[index]), "handle");
    must(nvmlDeviceGetUUID(devices[index], uuid, sizeof uuid), "uuid");
    must(nvmlDeviceGetMinorNumber(devices[index], &minor), "minor number");
    must(nvmlDeviceGetMemoryInfo(devices[index], &memory), "memory info");
    count = MAX_PROCESSES;
    must(nvmlDeviceGetComputeRunningProcesses(devices[index], &count, processes), "compute processes");
    count = MAX_PROCESSES;
    must(nvmlDeviceGetGraphicsRunningProcesses(devices[index], &count, processes), "graphics processes");
    count = MAX_PROCESSES;
    must(nvmlDeviceGetProcessUtilization(devices[index], samples, &count, since), "process utilization");
}

static void cycle(void) {
    char version[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
    unsigned int count;
    unsigned long long since = (unsigned long long)(time(NULL) - 5) * 1000000ULL;

    must(nvmlSystemGetDriverVersion(version, sizeof version), "driver version");
    must(nvmlDeviceGetCount(&count), "device count");
    for (unsigned int index = 0; index < count && index < MAX_DEVICES; index++)
        read_device(index, since);
    for (size_t i = 0; i < query_count; i++) {
        nvmlGetMemoryLimits_v1_t limits = {.nameSpace = queries[i].cgroup};
        must(nvmlDeviceGetMemoryLimits_v1(devices[queries[i].index], &limits), "memory limits");
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: metrics_floor CYCLES PAUSE_MS < queries\n");
        return 2;
    }
    long cycles = strtol(argv[1], NULL, 10), pause_ms = strtol(argv[2], NULL, 10);
    struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000L};
    read_queries();
    must(nvmlInit(), "init");
    for (long i = 0; i < cycles; i++) {
        double began = now();
        cycle();
        printf("%.9f\n", now() - began);
        nanosleep(&pause, NULL);
    }
    must(nvmlShutdown(), "shutdown");
    return 0;
}
