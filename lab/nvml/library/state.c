// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// What of MIG outlives a process, as it does in a GPU: modes and instances lie in the file
// mig beside the table, which every process with this library reads and writes. nvml.go
// documents it, and the files below /proc/driver that NVIDIA's kernel driver has.

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "standin.h"

unsigned made;
nvmlReturn_t state_read;

// column reads the next number of a line.
static bool column(char **rest, unsigned long max, unsigned *value) {
    const char *text = strsep(rest, " ");
    return text != NULL && number(text, 10, max, value);
}

static bool parse_mode(char *rest, struct gpu *g) {
    unsigned current, pending;
    if (!column(&rest, 1, &current) || !column(&rest, 1, &pending))
        return false;
    g->mig = current;
    g->mig_pending = pending;
    return rest == NULL;
}

static bool parse_instance(char *rest, struct gpu *g) {
    unsigned id, profile, start;
    if (!column(&rest, max_instances, &id) || !column(&rest, INT_MAX, &profile) || !column(&rest, 31, &start))
        return false;
    const struct profile *p = profile_by_id(g, profile);
    if (id == 0 || p == NULL || !(p->starts >> start & 1) || g->instances[id - 1].profile != NULL)
        return false;
    struct instance *i = &g->instances[id - 1];
    *i = (struct instance){.profile = p, .start = start};
    return rest == NULL || copy_text(i->uuid, sizeof i->uuid, rest);
}

static bool parse_state(char *line) {
    char *rest = line;
    const char *key = strsep(&rest, " ");
    if (strcmp(key, "made") == 0)
        return column(&rest, INT_MAX, &made) && rest == NULL;
    struct gpu *g = gpu_at(strsep(&rest, " "));
    if (g == NULL)
        return false;
    return (strcmp(key, "mode") == 0 && parse_mode(rest, g)) || (strcmp(key, "instance") == 0 && parse_instance(rest, g));
}

// read_state has no file until something is made.
static nvmlReturn_t read_state(void) {
    made = 0;
    for (unsigned n = 0; n < answers.count; n++) {
        answers.gpus[n].mig = answers.gpus[n].mig_pending = false;
        memset(answers.gpus[n].instances, 0, sizeof answers.gpus[n].instances);
    }
    FILE *f = fopen(state_path, "re");
    if (f == NULL && errno == ENOENT)
        return NVML_SUCCESS;
    if (f == NULL) {
        complain("open %s: %s", state_path, strerror(errno));
        return NVML_ERROR_OPERATING_SYSTEM;
    }
    nvmlReturn_t result = NVML_SUCCESS;
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    for (unsigned at = 1; result == NVML_SUCCESS && (length = getline(&line, &size, f)) > 0; at++) {
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        if (!parse_state(line)) {
            complain("%s:%u: want made NUMBER, mode ADDRESS CURRENT PENDING, or instance ADDRESS ID PROFILE START UUID",
                     state_path, at);
            result = NVML_ERROR_UNKNOWN;
        }
    }
    free(line);
    fclose(f);
    return result;
}

int take_state(void) {
    if (initialised == 0)
        return -1;
    char folder[PATH_MAX];
    strcpy(folder, state_path);
    char *slash = strrchr(folder, '/');
    strcpy(slash == NULL ? folder : slash + 1, ".");
    // The folder: the file is another one each time that it is written.
    int taken = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (taken >= 0 && flock(taken, LOCK_EX) != 0 && errno == EINTR)
        ;
    state_read = read_state();
    return taken;
}

void give_state(int taken) {
    if (taken >= 0)
        close(taken);
}

// write_state is read by none before it is whole.
static bool write_state(const char *path) {
    FILE *f = fopen(path, "we");
    if (f == NULL)
        return false;
    fprintf(f, "made %u\n", made);
    for (unsigned n = 0; n < answers.count; n++) {
        const struct gpu *g = &answers.gpus[n];
        char at[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
        snprintf(at, sizeof at, "%04x:%02x:%02x.0", g->at.domain, g->at.bus & 0xff, g->at.device & 0x1f);
        if (g->mig || g->mig_pending)
            fprintf(f, "mode %s %u %u\n", at, g->mig, g->mig_pending);
        for (unsigned i = 0; i < max_instances; i++) {
            const struct instance *one = &g->instances[i];
            if (one->profile != NULL)
                fprintf(f, "instance %s %u %u %u%s%s\n", at, i + 1, one->profile->id, one->start,
                        one->uuid[0] == '\0' ? "" : " ", one->uuid);
        }
    }
    bool failed = ferror(f);
    return fclose(f) == 0 && !failed && rename(path, state_path) == 0;
}

static nvmlReturn_t refused(const char *what, const char *path) {
    nvmlReturn_t result = errno == EROFS || errno == EACCES || errno == EPERM ? NVML_ERROR_NO_PERMISSION
                                                                            : NVML_ERROR_OPERATING_SYSTEM;
    complain("%s %s: %s", what, path, strerror(errno));
    return result;
}

nvmlReturn_t save_state(void) {
    char path[PATH_MAX + sizeof ".new"];
    snprintf(path, sizeof path, "%s.new", state_path);
    return write_state(path) ? NVML_SUCCESS : refused("write", path);
}

// capability_path is empty where nothing shows what a kernel driver would.
static void capability_path(const struct gpu *g, const struct instance *i, bool compute, char *path, size_t size) {
    struct stat s;
    int written = 0;
    if (capabilities_path[0] != '\0' && stat(capabilities_path, &s) == 0) {
        written = snprintf(path, size, "%s/gpu%u/mig/gi%u", capabilities_path, g->minor, instance_id(g, i));
        if (compute)
            written += snprintf(path + written, size - (size_t)written, "/ci%u", compute_id);
    }
    path[written] = '\0';
}

// make_folders makes a folder, and those above it.
static bool make_folders(char *path) {
    for (char *slash = path; (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
        *slash = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST)
            return false;
    }
    return mkdir(path, 0755) == 0 || errno == EEXIST;
}

enum { longest = PATH_MAX + 64 };

nvmlReturn_t show_capability(const struct gpu *g, const struct instance *i, bool compute) {
    // The kernel driver numbers the files of all instances that there can be.
    enum { first = 3, instances = 15, files = 9 };
    unsigned minor = first + (g->minor * instances + instance_id(g, i)) * files + (compute ? 1 + compute_id : 0);
    char path[longest];
    capability_path(g, i, compute, path, sizeof path - sizeof "/access");
    if (path[0] == '\0')
        return NVML_SUCCESS;
    if (!make_folders(path))
        return refused("make", path);
    strcat(path, "/access");
    FILE *f = fopen(path, "we");
    if (f == NULL)
        return refused("write", path);
    fprintf(f, "DeviceFileMinor: %u\nDeviceFileMode: %u\nDeviceFileModify: 1\n", minor, 0444);
    return fclose(f) == 0 ? NVML_SUCCESS : refused("write", path);
}

void hide_capability(const struct gpu *g, const struct instance *i, bool compute) {
    char path[longest];
    capability_path(g, i, compute, path, sizeof path - sizeof "/access");
    if (path[0] == '\0')
        return;
    char *end = path + strlen(path);
    strcpy(end, "/access");
    unlink(path);
    *end = '\0';
    rmdir(path);
}
