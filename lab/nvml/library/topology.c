// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// How two GPUs reach each other, which the table does not say: the kernel's /sys has the
// path of each from its host bridge on. NVIDIA's device plugin asks for it before it names
// the GPUs that it would rather give.

#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

// struct place is where a GPU is plugged in.
struct place {
    char resolved[PATH_MAX];
    const char *path; // in resolved: pci0000:8c/0000:8c:01.0/0000:8d:00.0
    int node;         // -1 where the kernel names none
};

// place_of is false where /sys has no such function.
static bool place_of(const struct address *at, struct place *p) {
    const char *sys = getenv("NVML_STANDIN_SYS");
    char name[PATH_MAX];
    int length = snprintf(name, sizeof name, "%s/bus/pci/devices/%04x:%02x:%02x.%x",
                          sys == NULL ? "/sys" : sys, at->domain, at->bus, at->device, at->function);
    if (length < 0 || (size_t)length >= sizeof name || realpath(name, p->resolved) == NULL)
        return false;
    const char *bridge = NULL;
    for (const char *found = p->resolved; (found = strstr(found, "/pci")) != NULL; found++)
        bridge = found + 1;
    if (bridge == NULL)
        return false;
    p->path = bridge;
    p->node = -1;
    char file[PATH_MAX + 16];
    snprintf(file, sizeof file, "%s/numa_node", p->resolved);
    FILE *f = fopen(file, "re");
    if (f == NULL)
        return true;
    if (fscanf(f, "%d", &p->node) != 1)
        p->node = -1;
    fclose(f);
    return true;
}

// steps counts what lies between slashes.
static unsigned steps(const char *path) {
    unsigned n = 1;
    for (; *path != '\0'; path++)
        n += *path == '/';
    return n;
}

static nvmlGpuTopologyLevel_t level_between(const struct place *a, const struct place *b) {
    unsigned shared = 0, end = 0;
    for (unsigned i = 0; a->path[i] != '\0' && a->path[i] == b->path[i]; i++)
        if (a->path[i] == '/') {
            shared++;
            end = i + 1;
        }
    if (shared == 0)
        return a->node >= 0 && a->node == b->node ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
    if (shared == 1)
        return NVML_TOPOLOGY_HOSTBRIDGE;
    // Of one switch each has the port down and itself left.
    return steps(a->path + end) <= 2 && steps(b->path + end) <= 2 ? NVML_TOPOLOGY_SINGLE : NVML_TOPOLOGY_MULTIPLE;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t first, nvmlDevice_t second, nvmlGpuTopologyLevel_t *level) {
    unsigned i, j;
    struct address a, b;
    pthread_mutex_lock(&lock);
    nvmlReturn_t result = index_of(first, &i);
    if (result == NVML_SUCCESS)
        result = index_of(second, &j);
    if (result == NVML_SUCCESS && level == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS) {
        a = answers.gpus[i].at;
        b = answers.gpus[j].at;
    }
    pthread_mutex_unlock(&lock);
    if (result != NVML_SUCCESS)
        return result;
    if (i == j) {
        *level = NVML_TOPOLOGY_INTERNAL;
        return NVML_SUCCESS;
    }
    struct place at_first, at_second;
    if (!place_of(&a, &at_first) || !place_of(&b, &at_second))
        return NVML_ERROR_NOT_SUPPORTED;
    *level = level_between(&at_first, &at_second);
    return NVML_SUCCESS;
}
