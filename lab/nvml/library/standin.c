// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// A stand-in for NVIDIA's libnvidia-ml.so.1. It drives no GPU and computes nothing: it
// says what a table says, so that programs which list GPUs through NVML run where there
// is none. nvml.go documents the table and the file of events. What is not defined here
// is made beside it, and answers NVML_ERROR_NOT_SUPPORTED.

#define _GNU_SOURCE

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "standin.h"

enum { max_sets = 16 };

struct event_set {
    bool used;
    long read; // how far the file of events is read
    unsigned long long types[max_gpus];
};

// The lock guards everything below it.
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
unsigned initialised;
struct table answers;
char state_path[PATH_MAX], capabilities_path[PATH_MAX];
static char events_path[PATH_MAX];
static struct event_set sets[max_sets];

void complain(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("stand-in for libnvidia-ml: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

bool number(const char *text, int base, unsigned long max, unsigned *value) {
    if (!isxdigit((unsigned char)text[0]) || (text[1] != '\0' && !isxdigit((unsigned char)text[1])))
        return false;
    char *end;
    errno = 0;
    unsigned long n = strtoul(text, &end, base);
    if (*end != '\0' || errno != 0 || n > max)
        return false;
    *value = (unsigned)n;
    return true;
}

// pair reads two numbers with a separator between them.
static bool pair(char *text, char separator, int base, unsigned long max, unsigned *first, unsigned *second) {
    char *rest = strchr(text, separator);
    if (rest == NULL)
        return false;
    *rest++ = '\0';
    return number(text, base, max, first) && number(rest, base, max, second);
}

// parse_address reads the three forms that NVML knows: with a domain, without one, and
// without a function.
static bool parse_address(const char *text, struct address *at) {
    char copy[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
    if (strlen(text) >= sizeof copy)
        return false;
    strcpy(copy, text);
    memset(at, 0, sizeof *at);
    char *slot = strrchr(copy, ':');
    if (slot == NULL)
        return false;
    *slot++ = '\0';
    char *function = strchr(slot, '.');
    if (function != NULL) {
        *function++ = '\0';
        if (!number(function, 16, 7, &at->function))
            return false;
    }
    if (!number(slot, 16, 31, &at->device))
        return false;
    if (strchr(copy, ':') != NULL)
        return pair(copy, ':', 16, UINT_MAX, &at->domain, &at->bus) && at->bus <= 0xff;
    return function != NULL && number(copy, 16, 0xff, &at->bus);
}

static bool same_address(const struct address *a, const struct address *b) {
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device && a->function == b->function;
}

struct word {
    const char *text;
    unsigned value;
};

static const struct word architectures[] = {
    {"Turing", NVML_DEVICE_ARCH_TURING}, {"Ampere", NVML_DEVICE_ARCH_AMPERE},
    {"Ada", NVML_DEVICE_ARCH_ADA}, {"Hopper", NVML_DEVICE_ARCH_HOPPER},
    {"Blackwell", NVML_DEVICE_ARCH_BLACKWELL}, {NULL, 0},
};

static const struct word brands[] = {
    {"Nvidia", NVML_BRAND_NVIDIA}, {"Tesla", NVML_BRAND_TESLA}, {NULL, 0},
};

static bool look_up(const struct word *words, const char *text, unsigned *value) {
    for (; words->text != NULL; words++)
        if (strcmp(words->text, text) == 0) {
            *value = words->value;
            return true;
        }
    return false;
}

bool copy_text(char *to, size_t size, const char *text) {
    size_t length = strlen(text);
    if (length == 0 || length >= size)
        return false;
    memcpy(to, text, length + 1);
    return true;
}

// parse_gpu reads what follows the word gpu, and returns what is wrong with it.
static const char *parse_gpu(char *rest, struct table *t) {
    enum { address, minor, uuid, id, memory, architecture, compute, brand, columns };
    char *column[columns];
    for (int i = 0; i < columns; i++) {
        column[i] = strsep(&rest, " ");
        if (rest == NULL)
            return "want nine columns: address, minor number, UUID, vendor:device, MiB of memory, "
                   "architecture, compute capability, brand, name";
    }
    if (t->count == max_gpus)
        return "too many GPUs";
    struct gpu *g = &t->gpus[t->count];
    unsigned mib = 0, word;
    if (!parse_address(column[address], &g->at))
        return "address: want domain:bus:device.function";
    if (g->at.function != 0)
        return "address: NVML has no functions but 0";
    if (!number(column[minor], 10, 255, &g->minor))
        return "minor number: want 0-255";
    if (!copy_text(g->uuid, sizeof g->uuid, column[uuid]) || strncmp(g->uuid, "GPU-", 4) != 0)
        return "UUID: want GPU- and a UUID";
    if (!pair(column[id], ':', 16, 0xffff, &g->vendor, &g->product))
        return "id: want vendor:device in hexadecimal";
    g->has_memory = strcmp(column[memory], "-") != 0;
    if (g->has_memory && !number(column[memory], 10, UINT_MAX, &mib))
        return "memory: want a number of MiB, or - where it is unknown";
    g->memory = (unsigned long long)mib << 20;
    if (!look_up(architectures, column[architecture], &word))
        return "architecture: want Turing, Ampere, Ada, Hopper or Blackwell";
    g->architecture = word;
    if (!pair(column[compute], '.', 10, 99, &g->compute_major, &g->compute_minor))
        return "compute capability: want major.minor";
    if (!look_up(brands, column[brand], &word))
        return "brand: want Nvidia or Tesla";
    g->brand = word;
    if (!copy_text(g->name, sizeof g->name, rest))
        return "name: is empty or too long";
    for (unsigned i = 0; i < t->count; i++) {
        const struct gpu *other = &t->gpus[i];
        if (same_address(&g->at, &other->at) || g->minor == other->minor || strcmp(g->uuid, other->uuid) == 0)
            return "address, minor number or UUID is another GPU's";
    }
    t->count++;
    return NULL;
}

// parse_line reads a line of the table, and returns what is wrong with it.
static const char *parse_line(char *line, struct table *t) {
    if (line[0] == '\0' || line[0] == '#')
        return NULL;
    char *rest = line;
    const char *key = strsep(&rest, " ");
    if (rest == NULL)
        return "want a word, a space and what it says";
    if (strcmp(key, "gpu") == 0)
        return parse_gpu(rest, t);
    if (strcmp(key, "driver") == 0) {
        if (t->driver[0] != '\0')
            return "driver is given twice";
        return copy_text(t->driver, sizeof t->driver, rest) ? NULL : "driver: want a version";
    }
    if (strcmp(key, "cuda") == 0) {
        if (t->has_cuda)
            return "cuda is given twice";
        t->has_cuda = pair(rest, '.', 10, 99, &t->cuda_major, &t->cuda_minor);
        return t->has_cuda ? NULL : "cuda: want major.minor";
    }
    if (strcmp(key, "mig") == 0)
        return parse_profile(rest, t);
    return "want driver, cuda, gpu or mig";
}

static int compare_gpus(const void *a, const void *b) {
    const struct address *x = &((const struct gpu *)a)->at, *y = &((const struct gpu *)b)->at;
    if (x->domain != y->domain)
        return x->domain < y->domain ? -1 : 1;
    if (x->bus != y->bus)
        return x->bus < y->bus ? -1 : 1;
    return (int)x->device - (int)y->device;
}

static nvmlReturn_t read_table(const char *path, struct table *t) {
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        complain("open %s: %s", path, strerror(errno));
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    memset(t, 0, sizeof *t);
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    const char *problem = NULL;
    unsigned at = 0;
    while (problem == NULL && (length = getline(&line, &size, f)) >= 0) {
        at++;
        if (length > 0 && line[length - 1] == '\n')
            line[--length] = '\0';
        problem = strlen(line) == (size_t)length ? parse_line(line, t) : "holds a NUL";
    }
    if (problem == NULL && ferror(f))
        problem = strerror(errno);
    if (problem == NULL && (t->driver[0] == '\0' || !t->has_cuda))
        problem = "the table lacks driver or cuda";
    free(line);
    fclose(f);
    if (problem != NULL) {
        complain("%s:%u: %s", path, at, problem);
        return NVML_ERROR_UNKNOWN;
    }
    // NVML numbers GPUs in the order of their addresses.
    qsort(t->gpus, t->count, sizeof t->gpus[0], compare_gpus);
    return NVML_SUCCESS;
}

// find_table writes the table's path: what the environment names, or etc/nvml-standin/gpus
// in the nearest folder above this library that has one. So it is found in the root of a
// driver wherever that is mounted.
static bool find_table(char *path, size_t size) {
    const char *named = getenv("NVML_STANDIN_GPUS");
    if (named != NULL && named[0] != '\0')
        return copy_text(path, size, named);
    Dl_info self;
    if (dladdr((void *)find_table, &self) == 0 || realpath(self.dli_fname, path) == NULL)
        return false;
    static const char below[] = "/etc/nvml-standin/gpus";
    for (char *end; (end = strrchr(path, '/')) != NULL;) {
        if ((size_t)(end - path) + sizeof below > size)
            return false;
        strcpy(end, below);
        FILE *f = fopen(path, "re");
        *end = '\0';
        if (f != NULL) {
            fclose(f);
            strcpy(end, below);
            return true;
        }
    }
    return false;
}

// beside writes the path of a file in the table's folder.
static bool beside(const char *table, const char *name, char *path, size_t size) {
    const char *slash = strrchr(table, '/');
    int folder = slash == NULL ? 0 : (int)(slash - table + 1);
    return (size_t)snprintf(path, size, "%.*s%s", folder, table, name) < size;
}

// find_events writes the path of the file of events: what the environment names, or the
// file events beside the table.
static bool find_events(const char *table, char *path, size_t size) {
    const char *named = getenv("NVML_STANDIN_EVENTS");
    if (named != NULL && named[0] != '\0')
        return copy_text(path, size, named);
    return beside(table, "events", path, size);
}

// find_state writes the path of MIG's state, beside the table, and of the folder in which
// NVIDIA's kernel driver tells of instances: in the root of the driver, as /proc would have
// it, and nowhere where the table is in no such root.
static bool find_state(const char *table) {
    if (!beside(table, "mig", state_path, sizeof state_path))
        return false;
    static const char in_root[] = "/etc/nvml-standin/gpus", in_proc[] = "/proc/driver/nvidia/capabilities";
    size_t length = strlen(table), below = strlen(in_root);
    capabilities_path[0] = '\0';
    if (length < below || strcmp(table + length - below, in_root) != 0)
        return true;
    return (size_t)snprintf(capabilities_path, sizeof capabilities_path, "%.*s%s", (int)(length - below), table, in_proc) <
           sizeof capabilities_path;
}

struct gpu *gpu_at(const char *address) {
    struct address at;
    if (address == NULL || !parse_address(address, &at))
        return NULL;
    for (unsigned i = 0; i < answers.count; i++)
        if (same_address(&at, &answers.gpus[i].at))
            return &answers.gpus[i];
    return NULL;
}

// struct event is a line of the file of events.
struct event {
    enum { event_xid, event_lost, event_hang } what;
    unsigned gpu, xid;
};

static bool parse_event(char *line, struct event *e) {
    char *rest = line;
    const char *key = strsep(&rest, " ");
    const struct gpu *g = gpu_at(strsep(&rest, " "));
    if (g == NULL)
        return false;
    e->gpu = (unsigned)(g - answers.gpus);
    if (strcmp(key, "lost") == 0 || strcmp(key, "hang") == 0) {
        e->what = key[0] == 'l' ? event_lost : event_hang;
        return rest == NULL;
    }
    e->what = event_xid;
    return strcmp(key, "xid") == 0 && rest != NULL && number(rest, 10, INT_MAX, &e->xid);
}

// next_event reads the first whole line after *offset that says something:
// NVML_ERROR_TIMEOUT where there is none yet, NVML_ERROR_UNKNOWN for a malformed one.
static nvmlReturn_t next_event(long *offset, struct event *e) {
    FILE *f = fopen(events_path, "re");
    if (f == NULL)
        return NVML_ERROR_TIMEOUT;
    nvmlReturn_t result = NVML_ERROR_TIMEOUT;
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    if (fseek(f, 0, SEEK_END) == 0 && ftell(f) < *offset)
        *offset = 0; // somebody began the file anew
    if (fseek(f, *offset, SEEK_SET) != 0)
        length = -1;
    while (result == NVML_ERROR_TIMEOUT && (length = getline(&line, &size, f)) > 0 && line[length - 1] == '\n') {
        *offset += length;
        line[length - 1] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        result = NVML_SUCCESS;
        if (!parse_event(line, e)) {
            complain("%s: want xid ADDRESS NUMBER, lost ADDRESS or hang ADDRESS, of a GPU in the table", events_path);
            result = NVML_ERROR_UNKNOWN;
        }
    }
    free(line);
    fclose(f);
    return result;
}

// lose_gpus marks those that the file of events says are lost.
static void lose_gpus(void) {
    struct event e;
    long offset = 0;
    nvmlReturn_t result;
    while ((result = next_event(&offset, &e)) != NVML_ERROR_TIMEOUT)
        if (result == NVML_SUCCESS && e.what == event_lost)
            answers.gpus[e.gpu].lost = true;
}

bool hangs(const struct gpu *g) {
    struct event e;
    long offset = 0;
    nvmlReturn_t result;
    while ((result = next_event(&offset, &e)) != NVML_ERROR_TIMEOUT)
        if (result == NVML_SUCCESS && e.what == event_hang && &answers.gpus[e.gpu] == g)
            return true;
    return false;
}

void wait_ms(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    nvmlReturn_t result = NVML_SUCCESS;
    pthread_mutex_lock(&lock);
    if (initialised == 0) {
        char path[PATH_MAX];
        static struct table fresh;
        if (!find_table(path, sizeof path) || !find_events(path, events_path, sizeof events_path) || !find_state(path)) {
            complain("no table: want etc/nvml-standin/gpus above the library, or its path in NVML_STANDIN_GPUS");
            result = NVML_ERROR_DRIVER_NOT_LOADED;
        } else {
            result = read_table(path, &fresh);
        }
        if (result == NVML_SUCCESS) {
            answers = fresh;
            lose_gpus();
        }
    }
    if (result == NVML_SUCCESS)
        initialised++;
    pthread_mutex_unlock(&lock);
    return result;
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlInit(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
    nvmlReturn_t result = NVML_ERROR_UNINITIALIZED;
    pthread_mutex_lock(&lock);
    if (initialised > 0) {
        initialised--;
        result = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

const char *nvmlErrorString(nvmlReturn_t result) {
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_IN_USE: return "In use by another client";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires reset";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_OPERATING_SYSTEM: return "The operating system has blocked the request";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument Version Mismatch";
    default: return "Unknown Error";
    }
}

// A handle is the number of a GPU or set, counted from 1, and no pointer: one from before
// a shutdown, or an invented one, is refused and not followed.
static void *handle(unsigned index) { return (void *)(uintptr_t)(index + 1); }

nvmlReturn_t index_of(nvmlDevice_t device, unsigned *index) {
    uintptr_t n = (uintptr_t)device.handle;
    if (initialised == 0)
        return NVML_ERROR_UNINITIALIZED;
    if (n == 0 || n > answers.count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *index = (unsigned)(n - 1);
    return answers.gpus[*index].lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

// gpu_of copies the GPU of a handle; out is where the caller's answer goes.
static nvmlReturn_t gpu_of(nvmlDevice_t device, const void *out, struct gpu *g) {
    unsigned index;
    pthread_mutex_lock(&lock);
    nvmlReturn_t result = index_of(device, &index);
    if (result == NVML_SUCCESS && out == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *g = answers.gpus[index];
    pthread_mutex_unlock(&lock);
    return result;
}

// system_of copies what is the same for all GPUs.
static nvmlReturn_t system_of(const void *out, struct table *t) {
    pthread_mutex_lock(&lock);
    nvmlReturn_t result = initialised == 0 ? NVML_ERROR_UNINITIALIZED
                        : out == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
    if (result == NVML_SUCCESS)
        *t = answers;
    pthread_mutex_unlock(&lock);
    return result;
}

nvmlReturn_t answer_text(char *to, unsigned size, const char *text) {
    return copy_text(to, size, text) ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    struct table t;
    nvmlReturn_t result = system_of(version, &t);
    return result != NVML_SUCCESS ? result : answer_text(version, length, t.driver);
}

// NVML's own version is the driver's after CUDA's major one.
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    struct table t;
    nvmlReturn_t result = system_of(version, &t);
    if (result != NVML_SUCCESS)
        return result;
    char text[NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE + NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
    snprintf(text, sizeof text, "%u.%s", t.cuda_major, t.driver);
    return answer_text(version, length, text);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    struct table t;
    nvmlReturn_t result = system_of(version, &t);
    if (result == NVML_SUCCESS)
        *version = (int)(t.cuda_major * 1000 + t.cuda_minor * 10);
    return result;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    struct table t;
    nvmlReturn_t result = system_of(count, &t);
    if (result == NVML_SUCCESS)
        *count = t.count;
    return result;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) { return nvmlDeviceGetCount_v2(count); }

// answer_handle gives out the handle of a GPU, unless it is lost.
static nvmlReturn_t answer_handle(unsigned index, nvmlDevice_t *device) {
    struct gpu g;
    nvmlDevice_t found = {handle(index)};
    nvmlReturn_t result = gpu_of(found, device, &g);
    if (result == NVML_SUCCESS)
        *device = found;
    return result;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    return index >= max_gpus ? NVML_ERROR_INVALID_ARGUMENT : answer_handle(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    struct table t;
    nvmlReturn_t result = system_of(uuid, &t);
    if (result != NVML_SUCCESS)
        return result;
    for (unsigned i = 0; i < t.count; i++)
        if (strcmp(uuid, t.gpus[i].uuid) == 0)
            return answer_handle(i, device);
    return mig_handle_by_uuid(uuid, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device) {
    struct table t;
    struct address at;
    nvmlReturn_t result = system_of(id, &t);
    if (result != NVML_SUCCESS)
        return result;
    if (!parse_address(id, &at))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < t.count; i++)
        if (same_address(&at, &t.gpus[i].at))
            return answer_handle(i, device);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
    struct gpu g;
    nvmlReturn_t result = gpu_of(device, index, &g);
    if (result == NVML_SUCCESS)
        *index = (unsigned)((uintptr_t)device.handle - 1);
    return result;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) {
    struct gpu g;
    nvmlReturn_t result = gpu_of(device, minor, &g);
    if (result == NVML_SUCCESS)
        *minor = g.minor;
    return result;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    struct gpu g;
    if (is_mig_handle(device))
        return mig_uuid(device, uuid, length);
    nvmlReturn_t result = gpu_of(device, uuid, &g);
    return result != NVML_SUCCESS ? result : answer_text(uuid, length, g.uuid);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    struct gpu g;
    nvmlReturn_t result = gpu_of(device, name, &g);
    return result != NVML_SUCCESS ? result : answer_text(name, length, g.name);
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *brand) {
    struct gpu g;
    nvmlReturn_t result = gpu_of(device, brand, &g);
    if (result == NVML_SUCCESS)
        *brand = g.brand;
    return result;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *architecture) {
    struct gpu g;
    nvmlReturn_t result = gpu_of(device, architecture, &g);
    if (result == NVML_SUCCESS)
        *architecture = g.architecture;
    return result;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    struct gpu g;
    nvmlReturn_t result = gpu_of(device, minor == NULL ? NULL : major, &g);
    if (result == NVML_SUCCESS) {
        *major = (int)g.compute_major;
        *minor = (int)g.compute_minor;
    }
    return result;
}

// Nothing runs on a stand-in, so all of its memory is free.
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    struct gpu g;
    nvmlReturn_t result = gpu_of(device, memory, &g);
    if (result == NVML_SUCCESS && !g.has_memory)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS)
        *memory = (nvmlMemory_t){.total = g.memory, .free = g.memory};
    return result;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    struct gpu g;
    nvmlReturn_t result = gpu_of(device, memory, &g);
    if (result == NVML_SUCCESS && !g.has_memory)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS && memory->version != nvmlMemory_v2)
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result == NVML_SUCCESS)
        *memory = (nvmlMemory_v2_t){.version = nvmlMemory_v2, .total = g.memory, .free = g.memory};
    return result;
}

nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode) {
    struct gpu g;
    nvmlReturn_t result = gpu_of(device, mode, &g);
    if (result == NVML_SUCCESS && mode->version != nvmlDeviceAddressingMode_v1)
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result == NVML_SUCCESS)
        mode->value = NVML_DEVICE_ADDRESSING_MODE_NONE;
    return result;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    struct gpu g;
    nvmlReturn_t result = gpu_of(device, pci, &g);
    if (result != NVML_SUCCESS)
        return result;
    memset(pci, 0, sizeof *pci);
    pci->domain = g.at.domain;
    pci->bus = g.at.bus;
    pci->device = g.at.device;
    pci->pciDeviceId = g.product << 16 | g.vendor;
    snprintf(pci->busId, sizeof pci->busId, NVML_DEVICE_PCI_BUS_ID_FMT, g.at.domain, g.at.bus, g.at.device);
    // The older form has room for 16 bits of the domain.
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT,
             g.at.domain & 0xffff, g.at.bus & 0xff, g.at.device & 0x1f);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t *mode) {
    struct gpu g;
    nvmlReturn_t result = gpu_of(device, mode, &g);
    if (result == NVML_SUCCESS)
        *mode = NVML_GPU_VIRTUALIZATION_MODE_NONE;
    return result;
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode) {
    struct gpu g;
    nvmlReturn_t result = gpu_of(device, mode, &g);
    if (result == NVML_SUCCESS)
        *mode = NVML_FEATURE_ENABLED;
    return result;
}

static const unsigned long long supported_events =
    nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError | nvmlEventTypeSingleBitEccError;

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
    struct gpu g;
    nvmlReturn_t result = gpu_of(device, types, &g);
    if (result == NVML_SUCCESS)
        *types = supported_events;
    return result;
}

// events_size is how long the file of events is now.
static long events_size(void) {
    FILE *f = fopen(events_path, "re");
    if (f == NULL)
        return 0;
    long size = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : 0;
    fclose(f);
    return size < 0 ? 0 : size;
}

// A set begins where the file of events ends: what happened before is not told again.
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = NVML_ERROR_INSUFFICIENT_RESOURCES;
    pthread_mutex_lock(&lock);
    if (initialised == 0)
        result = NVML_ERROR_UNINITIALIZED;
    for (unsigned i = 0; i < max_sets && result == NVML_ERROR_INSUFFICIENT_RESOURCES; i++) {
        if (sets[i].used)
            continue;
        sets[i] = (struct event_set){.used = true, .read = events_size()};
        *set = (nvmlEventSet_t){handle(i)};
        result = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

// set_of is the set of a handle; NULL where there is none. The caller holds the lock.
static struct event_set *set_of(nvmlEventSet_t set) {
    uintptr_t n = (uintptr_t)set.handle;
    return n == 0 || n > max_sets || !sets[n - 1].used ? NULL : &sets[n - 1];
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
    unsigned index;
    pthread_mutex_lock(&lock);
    struct event_set *s = set_of(set);
    nvmlReturn_t result = index_of(device, &index);
    if (result == NVML_SUCCESS && s == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS && (types & ~supported_events) != 0)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS)
        s->types[index] |= types;
    pthread_mutex_unlock(&lock);
    return result;
}

// take_event is one look into the file of events.
static nvmlReturn_t take_event(nvmlEventSet_t set, nvmlEventData_t *data) {
    struct event_set *s = set_of(set);
    if (initialised == 0)
        return NVML_ERROR_UNINITIALIZED;
    if (s == NULL || data == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct event e;
    for (;;) {
        nvmlReturn_t result = next_event(&s->read, &e);
        if (result != NVML_SUCCESS)
            return result;
        if (e.what == event_hang)
            continue; // who makes an instance looks for it
        if (e.what == event_lost) {
            answers.gpus[e.gpu].lost = true;
            return NVML_ERROR_GPU_IS_LOST;
        }
        if (s->types[e.gpu] & nvmlEventTypeXidCriticalError)
            break;
    }
    *data = (nvmlEventData_t){
        .device = {handle(e.gpu)},
        .eventType = nvmlEventTypeXidCriticalError,
        .eventData = e.xid,
        .gpuInstanceId = 0xffffffff, // the whole GPU, no MIG device of it
        .computeInstanceId = 0xffffffff,
    };
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms) {
    for (unsigned waited = 0;; waited += poll_ms) {
        pthread_mutex_lock(&lock);
        nvmlReturn_t result = take_event(set, data);
        pthread_mutex_unlock(&lock);
        if (result != NVML_ERROR_TIMEOUT || waited >= timeout_ms)
            return result;
        unsigned left = timeout_ms - waited;
        long ms = left < poll_ms ? (long)left : poll_ms;
        wait_ms(ms);
        if (left < poll_ms)
            return NVML_ERROR_TIMEOUT;
    }
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms) {
    return nvmlEventSetWait_v2(set, data, timeout_ms);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    pthread_mutex_lock(&lock);
    struct event_set *s = set_of(set);
    if (s != NULL)
        s->used = false;
    pthread_mutex_unlock(&lock);
    return s != NULL ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}
