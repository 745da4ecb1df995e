#define _GNU_SOURCE
#include "processes.h"

#include "allocation.h"
#include "cgroup.h"
#include "session.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FRESH_MS 10
#define MAX_ARGUMENTS 32
#define PROC_BYTES 4096
#define NOT_TOLD (~0ULL)

static struct process *table;
static size_t count, room;
static unsigned long table_generation;
static unsigned long long table_ms;

static unsigned long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000 + (unsigned long long)now.tv_nsec / 1000000;
}

static void add(struct process process) {
    if (count == room) {
        room = room ? 2 * room : 64;
        table = realloc(table, room * sizeof *table);
        if (table == NULL) abort();
    }
    table[count++] = process;
}

/* Entries `PID BYTES [SM PERCENT]`. */
static void add_of_state(unsigned int device, const char *name, int is_graphics) {
    const char *value;
    for (size_t n = 0; (value = device_nth(device, name, n)) != NULL; n++) {
        struct process process = {.device = device, .is_graphics = is_graphics};
        if (sscanf(value, "%u %llu %u", &process.pid, &process.used, &process.sm_percent) >= 2) add(process);
    }
}

/* What a file of a process holds, with a zero behind it; empty once the process is gone. Returns the length. */
static size_t read_proc(unsigned int pid, const char *name, char *text) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, PROC_BYTES - 1);
    if (file >= 0) close(file);
    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

static void add_if_allocated(unsigned int pid) {
    char text[PROC_BYTES], *arguments[MAX_ARGUMENTS + 1] = {0};
    struct allocation allocation;
    read_proc(pid, "comm", text);
    if (strcmp(text, ALLOCATED_NAME "\n") != 0) return;
    /* A process that ended keeps its name until it is waited for, but no arguments. */
    size_t length = read_proc(pid, "cmdline", text), words = 0;
    for (char *word = text; word < text + length && words < MAX_ARGUMENTS; word += strlen(word) + 1)
        arguments[words++] = word;
    if (words == 0 || allocation_parse(arguments + 1, &allocation) != NULL) return;
    for (unsigned int device = 0; device < device_count(); device++)
        if (allocation_is_on(&allocation, device_value(device, "uuid")))
            add((struct process){.device = device, .pid = pid, .sm_percent = allocation.sm_percent,
                                 .is_graphics = allocation.is_graphics, .used = allocation.bytes});
}

static void scan(void) {
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc)) != NULL;)
        if (isdigit((unsigned char)*entry->d_name)) add_if_allocated((unsigned int)strtoul(entry->d_name, NULL, 10));
    if (proc) closedir(proc);
}

static void look_again(void) {
    while (count > 0) free(table[--count].cgroups);
    for (unsigned int device = 0; device < device_count(); device++) {
        add_of_state(device, "process", 0);
        add_of_state(device, "graphics_process", 1);
    }
    if (state_number(&state, "scan_processes", 0) != 0) scan();
}

const struct process *processes(size_t *number) {
    unsigned long long now = now_ms();
    if (table_generation != generation || now - table_ms >= FRESH_MS) {
        look_again();
        table_generation = generation;
        table_ms = now;
    }
    *number = count;
    return table;
}

static const char *cgroups_of(struct process *process) {
    char text[PROC_BYTES];
    if (process->cgroups == NULL) {
        read_proc(process->pid, "cgroup", text);
        process->cgroups = strdup(text);
        if (process->cgroups == NULL) abort();
    }
    return process->cgroups;
}

/* Entries `BYTES DIRECTORY`. */
static const char *told_use(unsigned int device, const char *directory) {
    const char *value, *path;
    for (size_t n = 0; (value = device_nth(device, "cgroup_used", n)) != NULL; n++)
        if ((path = strchr(value, ' ')) != NULL && strcmp(path + 1, directory) == 0) return value;
    return NULL;
}

unsigned long long used_by_cgroup(unsigned int device, const char *directory, const char *below_root) {
    const char *told = told_use(device, directory);
    if (told) return strtoull(told, NULL, 10);
    size_t number;
    unsigned long long used = 0;
    processes(&number);
    for (size_t i = 0; i < number; i++)
        if (table[i].device == device && table[i].used != NOT_TOLD && cgroup_holds(below_root, cgroups_of(&table[i])))
            used += table[i].used;
    return used;
}
