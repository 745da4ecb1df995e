#include "allocation.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The text after the equals sign of an option, or NULL for another argument. */
static const char *value_of(const char *argument, const char *option) {
    size_t length = strlen(option);
    return strncmp(argument, option, length) == 0 && argument[length] == '=' ? argument + length + 1 : NULL;
}

/* A whole number, with or without one of Kubernetes' binary suffixes. Returns whether it was one. */
static int parse_bytes(const char *text, unsigned long long *bytes) {
    static const char *const SUFFIXES[] = {"", "Ki", "Mi", "Gi"};
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text)) return 0;
    for (unsigned int power = 0; power < sizeof SUFFIXES / sizeof *SUFFIXES; power++) {
        if (strcmp(end, SUFFIXES[power]) != 0) continue;
        *bytes = number << (10 * power);
        return 1;
    }
    return 0;
}

static int parse_one(const char *argument, struct allocation *allocation) {
    const char *memory = value_of(argument, "--memory"), *sm = value_of(argument, "--sm");
    const char *gpus = value_of(argument, "--gpu");
    unsigned long long percent;
    if (gpus && *gpus) {
        allocation->gpus = gpus;
        return 1;
    }
    if (memory) return parse_bytes(memory, &allocation->bytes);
    if (strcmp(argument, "--graphics") == 0) return allocation->is_graphics = 1;
    if (sm == NULL || !parse_bytes(sm, &percent)) return 0;
    allocation->sm_percent = (unsigned int)percent;
    return 1;
}

const char *allocation_parse(char **arguments, struct allocation *allocation) {
    *allocation = (struct allocation){0};
    for (; *arguments && strcmp(*arguments, "--") != 0; arguments++)
        if (!parse_one(*arguments, allocation)) return *arguments;
    allocation->command = *arguments ? arguments + 1 : arguments;
    if (allocation->gpus == NULL) return "--gpu=UUID[,UUID]";
    return NULL;
}

int allocation_is_on(const struct allocation *allocation, const char *uuid) {
    size_t length = strlen(uuid);
    for (const char *one = allocation->gpus; one != NULL; one = strchr(one, ',')) {
        if (*one == ',') one++;
        if (strncmp(one, uuid, length) == 0 && (one[length] == ',' || one[length] == '\0')) return 1;
    }
    return 0;
}
