// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// MIG: GPUs that can be cut into instances. Modes and instances are the GPU's, whichever
// process asks: each call reads the state that all share (state.c). A GPU instance has one
// compute instance at most, with all of its slices: smaller ones are not supported.

#define _GNU_SOURCE

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "standin.h"

static int take_lock(void) {
    pthread_mutex_lock(&lock);
    return take_state();
}

static void release(int *taken) {
    give_state(*taken);
    pthread_mutex_unlock(&lock);
}

// HOLD_LOCK holds the lock, and the state against other processes, to the end of a function.
#define HOLD_LOCK __attribute__((cleanup(release), unused)) int taken = take_lock()

// parse_starts reads numbers with commas between them.
static bool parse_starts(char *text, struct profile *p) {
    p->starts = 0;
    for (char *one; (one = strsep(&text, ",")) != NULL;) {
        unsigned start;
        if (!number(one, 10, 31, &start) || p->starts >> start & 1)
            return false;
        p->starts |= 1U << start;
    }
    return true;
}

const char *parse_profile(char *rest, struct table *t) {
    if (t->profile_count == max_profiles)
        return "too many MIG profiles";
    struct profile *p = &t->profiles[t->profile_count];
    *p = (struct profile){0};
    if (!copy_text(p->name, sizeof p->name, strsep(&rest, " ")))
        return "MIG profile: its name is empty or too long";
    unsigned *const numbers[] = {&p->number, &p->id, &p->slices, &p->instances, &p->multiprocessors, &p->copy,
                                 &p->decoders, &p->jpeg, &p->ofa, &p->mib, &p->size};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *column = strsep(&rest, " ");
        if (column == NULL || !number(column, 10, INT_MAX, numbers[i]))
            return "MIG profile: want NVML's number, id, slices, instances, multiprocessors, copy engines, decoders, "
                   "JPEG engines, OFA engines, MiB of memory, slices of memory";
    }
    char *starts = strsep(&rest, " ");
    if (starts == NULL || !parse_starts(starts, p))
        return "MIG profile: want the slices of memory where it may begin, with commas between them";
    if (rest == NULL || !copy_text(p->product, sizeof p->product, rest))
        return "MIG profile: want a product's name";
    if (p->number >= NVML_GPU_INSTANCE_PROFILE_COUNT)
        return "MIG profile: NVML has no profile of this number";
    for (unsigned i = 0; i < t->profile_count; i++) {
        const struct profile *other = &t->profiles[i];
        if (strcmp(p->product, other->product) == 0 && (p->number == other->number || p->id == other->id))
            return "MIG profile: the product has one of this number or id";
    }
    t->profile_count++;
    return NULL;
}

static bool is_of(const struct profile *p, const struct gpu *g) { return strcmp(p->product, g->name) == 0; }

const struct profile *profile_by_id(const struct gpu *g, unsigned id) {
    for (unsigned i = 0; i < answers.profile_count; i++)
        if (is_of(&answers.profiles[i], g) && answers.profiles[i].id == id)
            return &answers.profiles[i];
    return NULL;
}

// capable_gpu is the GPU of a handle, if MIG is for its product.
static nvmlReturn_t capable_gpu(nvmlDevice_t device, const void *out, struct gpu **g) {
    unsigned index;
    nvmlReturn_t result = index_of(device, &index);
    if (result != NVML_SUCCESS)
        return result;
    if (out == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (state_read != NVML_SUCCESS)
        return state_read;
    *g = &answers.gpus[index];
    for (unsigned i = 0; i < answers.profile_count; i++)
        if (is_of(&answers.profiles[i], *g))
            return NVML_SUCCESS;
    return NVML_ERROR_NOT_SUPPORTED;
}

// mig_gpu is the GPU of a handle, if it is in MIG mode.
static nvmlReturn_t mig_gpu(nvmlDevice_t device, const void *out, struct gpu **g) {
    nvmlReturn_t result = capable_gpu(device, out, g);
    return result == NVML_SUCCESS && !(*g)->mig ? NVML_ERROR_NOT_SUPPORTED : result;
}

// The handle of an instance, and of the MIG device that is its compute instance, has the
// instance's number, counted from 1, above the GPU's.
enum { instance_shift = 8 };

static void *instance_handle(const struct gpu *g, const struct instance *i) {
    return (void *)(uintptr_t)((i - g->instances + 1) << instance_shift | (g - answers.gpus + 1));
}

bool is_mig_handle(nvmlDevice_t device) { return (uintptr_t)device.handle >> instance_shift != 0; }

// instance_of is the instance of a handle.
static nvmlReturn_t instance_of(const void *handle, const void *out, struct gpu **g, struct instance **i) {
    uintptr_t slot = (uintptr_t)handle >> instance_shift;
    nvmlDevice_t parent = {(void *)((uintptr_t)handle & ((1 << instance_shift) - 1))};
    nvmlReturn_t result = mig_gpu(parent, out, g);
    if (result != NVML_SUCCESS)
        return result;
    if (slot == 0 || slot > max_instances || (*g)->instances[slot - 1].profile == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *i = &(*g)->instances[slot - 1];
    return NVML_SUCCESS;
}

// compute_of is the instance of the handle of a compute instance or MIG device.
static nvmlReturn_t compute_of(const void *handle, const void *out, struct gpu **g, struct instance **i) {
    nvmlReturn_t result = instance_of(handle, out, g, i);
    return result == NVML_SUCCESS && (*i)->uuid[0] == '\0' ? NVML_ERROR_INVALID_ARGUMENT : result;
}

unsigned instance_id(const struct gpu *g, const struct instance *i) { return (unsigned)(i - g->instances) + 1; }

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    HOLD_LOCK;
    struct gpu *g;
    nvmlReturn_t result = capable_gpu(device, pending == NULL ? NULL : current, &g);
    if (result == NVML_SUCCESS) {
        *current = g->mig;
        *pending = g->mig_pending;
    }
    return result;
}

// Products before Hopper change their mode with a reset, which a stand-in never has.
nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation) {
    HOLD_LOCK;
    struct gpu *g;
    nvmlReturn_t result = capable_gpu(device, activation, &g);
    if (result != NVML_SUCCESS)
        return result;
    if (mode != NVML_DEVICE_MIG_DISABLE && mode != NVML_DEVICE_MIG_ENABLE)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < max_instances; i++)
        if (mode == NVML_DEVICE_MIG_DISABLE && g->instances[i].profile != NULL) {
            *activation = NVML_ERROR_IN_USE;
            return NVML_SUCCESS;
        }
    g->mig_pending = mode;
    *activation = NVML_SUCCESS;
    if (g->architecture >= NVML_DEVICE_ARCH_HOPPER)
        g->mig = mode;
    else if (g->mig != g->mig_pending)
        *activation = NVML_ERROR_RESET_REQUIRED;
    return save_state();
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
    HOLD_LOCK;
    struct gpu *g;
    nvmlReturn_t result = mig_gpu(device, count, &g);
    if (result == NVML_SUCCESS)
        *count = max_instances;
    else if (result == NVML_ERROR_NOT_SUPPORTED) {
        *count = 0;
        result = NVML_SUCCESS;
    }
    return result;
}

// profile_of is a profile of a GPU's by NVML's number.
static nvmlReturn_t profile_of(nvmlDevice_t device, unsigned profile, const void *out, const struct profile **p) {
    struct gpu *g;
    nvmlReturn_t result = capable_gpu(device, out, &g);
    if (result != NVML_SUCCESS)
        return result;
    if (profile >= NVML_GPU_INSTANCE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < answers.profile_count; i++)
        if (is_of(&answers.profiles[i], g) && answers.profiles[i].number == profile) {
            *p = &answers.profiles[i];
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_SUPPORTED;
}

// ENGINES are what all versions of a profile say.
#define ENGINES(p) \
    .id = (p)->id, .sliceCount = (p)->slices, .instanceCount = (p)->instances, \
    .multiprocessorCount = (p)->multiprocessors, .copyEngineCount = (p)->copy, .decoderCount = (p)->decoders, \
    .jpegCount = (p)->jpeg, .ofaCount = (p)->ofa, .memorySizeMB = (p)->mib

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
                                                 nvmlGpuInstanceProfileInfo_t *info) {
    HOLD_LOCK;
    const struct profile *p;
    nvmlReturn_t result = profile_of(device, profile, info, &p);
    if (result == NVML_SUCCESS)
        *info = (nvmlGpuInstanceProfileInfo_t){ENGINES(p)};
    return result;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
                                                  nvmlGpuInstanceProfileInfo_v2_t *info) {
    HOLD_LOCK;
    const struct profile *p;
    nvmlReturn_t result = profile_of(device, profile, info, &p);
    if (result != NVML_SUCCESS)
        return result;
    if (info->version == nvmlGpuInstanceProfileInfo_v2) {
        *info = (nvmlGpuInstanceProfileInfo_v2_t){.version = nvmlGpuInstanceProfileInfo_v2, ENGINES(p)};
        snprintf(info->name, sizeof info->name, "MIG %s", p->name);
        return NVML_SUCCESS;
    }
    if (info->version == nvmlGpuInstanceProfileInfo_v3) {
        nvmlGpuInstanceProfileInfo_v3_t *third = (void *)info;
        *third = (nvmlGpuInstanceProfileInfo_v3_t){.version = nvmlGpuInstanceProfileInfo_v3, ENGINES(p)};
        snprintf(third->name, sizeof third->name, "MIG %s", p->name);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
                                                           nvmlGpuInstancePlacement_t *placements, unsigned int *count) {
    HOLD_LOCK;
    struct gpu *g;
    nvmlReturn_t result = capable_gpu(device, count, &g);
    if (result != NVML_SUCCESS)
        return result;
    const struct profile *p = profile_by_id(g, id);
    if (p == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned room = *count, found = 0;
    for (unsigned start = 0; start < 32; start++)
        if (p->starts >> start & 1) {
            if (placements != NULL && found < room)
                placements[found] = (nvmlGpuInstancePlacement_t){.start = start, .size = p->size};
            found++;
        }
    *count = found;
    return placements != NULL && found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

// fits says whether a profile's instance has room beside those that are there.
static bool fits(const struct gpu *g, const struct profile *p, unsigned start) {
    unsigned slices = p->slices, of_profile = 1, most = 0;
    for (unsigned i = 0; i < answers.profile_count; i++)
        if (is_of(&answers.profiles[i], g) && answers.profiles[i].slices > most)
            most = answers.profiles[i].slices;
    for (unsigned i = 0; i < max_instances; i++) {
        const struct instance *other = &g->instances[i];
        if (other->profile == NULL)
            continue;
        if (start < other->start + other->profile->size && other->start < start + p->size)
            return false;
        slices += other->profile->slices;
        of_profile += other->profile == p;
    }
    return slices <= most && of_profile <= p->instances;
}

// save_made keeps an instance, or its compute instance. What NVIDIA's kernel driver tells of
// it is there before anybody may look for it.
static nvmlReturn_t save_made(const struct gpu *g, const struct instance *i, bool compute) {
    nvmlReturn_t result = show_capability(g, i, compute);
    if (result == NVML_SUCCESS)
        result = save_state();
    if (result != NVML_SUCCESS)
        hide_capability(g, i, compute);
    return result;
}

// create makes an instance at one of the starts.
static nvmlReturn_t create(nvmlDevice_t device, unsigned id, unsigned starts, nvmlGpuInstance_t *out) {
    struct gpu *g;
    nvmlReturn_t result = mig_gpu(device, out, &g);
    if (result != NVML_SUCCESS)
        return result;
    const struct profile *p = profile_by_id(g, id);
    if (p == NULL || (p->starts & starts) == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    while (hangs(g))
        wait_ms(poll_ms);
    for (unsigned start = 0; start < 32; start++)
        for (unsigned i = 0; i < max_instances && (p->starts & starts) >> start & 1 && fits(g, p, start); i++)
            if (g->instances[i].profile == NULL) {
                g->instances[i] = (struct instance){.profile = p, .start = start};
                out->handle = instance_handle(g, &g->instances[i]);
                return save_made(g, &g->instances[i], false);
            }
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *out) {
    HOLD_LOCK;
    return create(device, id, UINT_MAX, out);
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id,
                                                      const nvmlGpuInstancePlacement_t *at, nvmlGpuInstance_t *out) {
    HOLD_LOCK;
    struct gpu *g;
    nvmlReturn_t result = mig_gpu(device, at, &g);
    if (result != NVML_SUCCESS)
        return result;
    const struct profile *p = profile_by_id(g, id);
    if (p == NULL || at->start >= 32 || at->size != p->size)
        return NVML_ERROR_INVALID_ARGUMENT;
    return create(device, id, 1U << at->start, out);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance) {
    HOLD_LOCK;
    struct gpu *g;
    struct instance *i;
    nvmlReturn_t result = instance_of(instance.handle, instance.handle, &g, &i);
    if (result == NVML_SUCCESS && i->uuid[0] != '\0')
        return NVML_ERROR_IN_USE;
    if (result != NVML_SUCCESS)
        return result;
    *i = (struct instance){0};
    result = save_state();
    if (result == NVML_SUCCESS)
        hide_capability(g, i, false);
    return result;
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *out, unsigned int *count) {
    HOLD_LOCK;
    struct gpu *g;
    nvmlReturn_t result = mig_gpu(device, count == NULL ? NULL : out, &g);
    if (result != NVML_SUCCESS)
        return result;
    const struct profile *p = profile_by_id(g, id);
    if (p == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0; // the caller has room for as many as the profile allows
    for (unsigned i = 0; i < max_instances; i++)
        if (g->instances[i].profile == p)
            out[(*count)++].handle = instance_handle(g, &g->instances[i]);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *out) {
    HOLD_LOCK;
    struct gpu *g;
    nvmlReturn_t result = mig_gpu(device, out, &g);
    if (result != NVML_SUCCESS)
        return result;
    if (id == 0 || id > max_instances || g->instances[id - 1].profile == NULL)
        return NVML_ERROR_NOT_FOUND;
    out->handle = instance_handle(g, &g->instances[id - 1]);
    return NVML_SUCCESS;
}

static nvmlDevice_t device_of(const struct gpu *g) { return (nvmlDevice_t){(void *)(uintptr_t)(g - answers.gpus + 1)}; }

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info) {
    HOLD_LOCK;
    struct gpu *g;
    struct instance *i;
    nvmlReturn_t result = instance_of(instance.handle, info, &g, &i);
    if (result == NVML_SUCCESS)
        *info = (nvmlGpuInstanceInfo_t){.device = device_of(g), .id = instance_id(g, i), .profileId = i->profile->id,
                                        .placement = {.start = i->start, .size = i->profile->size}};
    return result;
}

// compute_number is NVML's number of the compute instance with all slices of a profile.
static unsigned compute_number(const struct profile *p) {
    switch (p->slices) {
    case 1: return NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE;
    case 2: return NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE;
    case 3: return NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE;
    case 4: return NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE;
    case 6: return NVML_COMPUTE_INSTANCE_PROFILE_6_SLICE;
    case 7: return NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE;
    default: return NVML_COMPUTE_INSTANCE_PROFILE_8_SLICE;
    }
}

// compute_profile is the profile of an instance, if the compute profile is of all its slices.
static nvmlReturn_t compute_profile(nvmlGpuInstance_t instance, unsigned profile, unsigned engines, const void *out,
                                    const struct profile **p) {
    struct gpu *g;
    struct instance *i;
    nvmlReturn_t result = instance_of(instance.handle, out, &g, &i);
    if (result != NVML_SUCCESS)
        return result;
    if (profile >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT || engines >= NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *p = i->profile;
    return profile == compute_number(*p) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

// SHARED_ENGINES are what all versions of a compute instance's profile say. Its id is
// NVML's number.
#define SHARED_ENGINES(p) \
    .id = compute_number(p), .sliceCount = (p)->slices, .instanceCount = 1, .multiprocessorCount = (p)->multiprocessors, \
    .sharedCopyEngineCount = (p)->copy, .sharedDecoderCount = (p)->decoders, .sharedJpegCount = (p)->jpeg, \
    .sharedOfaCount = (p)->ofa

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned int profile,
                                                          unsigned int engines, nvmlComputeInstanceProfileInfo_t *info) {
    HOLD_LOCK;
    const struct profile *p;
    nvmlReturn_t result = compute_profile(instance, profile, engines, info, &p);
    if (result == NVML_SUCCESS)
        *info = (nvmlComputeInstanceProfileInfo_t){SHARED_ENGINES(p)};
    return result;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t instance, unsigned int profile,
                                                           unsigned int engines, nvmlComputeInstanceProfileInfo_v2_t *info) {
    HOLD_LOCK;
    const struct profile *p;
    nvmlReturn_t result = compute_profile(instance, profile, engines, info, &p);
    if (result != NVML_SUCCESS)
        return result;
    if (info->version == nvmlComputeInstanceProfileInfo_v2) {
        *info = (nvmlComputeInstanceProfileInfo_v2_t){.version = nvmlComputeInstanceProfileInfo_v2, SHARED_ENGINES(p)};
        snprintf(info->name, sizeof info->name, "MIG %s", p->name);
        return NVML_SUCCESS;
    }
    if (info->version == nvmlComputeInstanceProfileInfo_v3) {
        nvmlComputeInstanceProfileInfo_v3_t *third = (void *)info;
        *third = (nvmlComputeInstanceProfileInfo_v3_t){.version = nvmlComputeInstanceProfileInfo_v3, SHARED_ENGINES(p)};
        snprintf(third->name, sizeof third->name, "MIG %s", p->name);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

// A MIG device's UUID is another one each time that it is made.
nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *out) {
    HOLD_LOCK;
    struct gpu *g;
    struct instance *i;
    nvmlReturn_t result = instance_of(instance.handle, out, &g, &i);
    if (result != NVML_SUCCESS)
        return result;
    if (id != compute_number(i->profile))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (i->uuid[0] != '\0')
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    snprintf(i->uuid, sizeof i->uuid, "MIG-%.24s%012x", g->uuid + strlen("GPU-"), ++made);
    out->handle = instance_handle(g, i);
    return save_made(g, i, true);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute) {
    HOLD_LOCK;
    struct gpu *g;
    struct instance *i;
    nvmlReturn_t result = compute_of(compute.handle, compute.handle, &g, &i);
    if (result != NVML_SUCCESS)
        return result;
    i->uuid[0] = '\0';
    result = save_state();
    if (result == NVML_SUCCESS)
        hide_capability(g, i, true);
    return result;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *out) {
    HOLD_LOCK;
    struct gpu *g;
    struct instance *i;
    nvmlReturn_t result = instance_of(instance.handle, out, &g, &i);
    if (result == NVML_SUCCESS && (id != compute_id || i->uuid[0] == '\0'))
        return NVML_ERROR_NOT_FOUND;
    if (result == NVML_SUCCESS)
        out->handle = instance_handle(g, i);
    return result;
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_t *info) {
    HOLD_LOCK;
    struct gpu *g;
    struct instance *i;
    nvmlReturn_t result = compute_of(compute.handle, info, &g, &i);
    if (result == NVML_SUCCESS)
        *info = (nvmlComputeInstanceInfo_t){
            .device = {instance_handle(g, i)}, .gpuInstance = {instance_handle(g, i)}, .id = compute_id,
            .profileId = compute_number(i->profile), .placement = {.start = 0, .size = i->profile->slices},
        };
    return result;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *out) {
    HOLD_LOCK;
    struct gpu *g;
    nvmlReturn_t result = mig_gpu(device, out, &g);
    if (result != NVML_SUCCESS)
        return result;
    if (index >= max_instances)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (g->instances[index].uuid[0] == '\0')
        return NVML_ERROR_NOT_FOUND;
    out->handle = instance_handle(g, &g->instances[index]);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is) {
    HOLD_LOCK;
    struct gpu *g;
    struct instance *i;
    unsigned index;
    nvmlReturn_t result = is_mig_handle(device) ? compute_of(device.handle, is, &g, &i) : index_of(device, &index);
    if (result == NVML_SUCCESS && is == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *is = is_mig_handle(device);
    return result;
}

// mig_device is the instance of a MIG device. What is asked of it is not supported by a
// whole GPU.
static nvmlReturn_t mig_device(nvmlDevice_t device, const void *out, struct gpu **g, struct instance **i) {
    unsigned index;
    if (is_mig_handle(device))
        return compute_of(device.handle, out, g, i);
    nvmlReturn_t result = index_of(device, &index);
    return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id) {
    HOLD_LOCK;
    struct gpu *g;
    struct instance *i;
    nvmlReturn_t result = mig_device(device, id, &g, &i);
    if (result == NVML_SUCCESS)
        *id = instance_id(g, i);
    return result;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id) {
    HOLD_LOCK;
    struct gpu *g;
    struct instance *i;
    nvmlReturn_t result = mig_device(device, id, &g, &i);
    if (result == NVML_SUCCESS)
        *id = compute_id;
    return result;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *parent) {
    HOLD_LOCK;
    struct gpu *g;
    struct instance *i;
    nvmlReturn_t result = mig_device(device, parent, &g, &i);
    if (result == NVML_SUCCESS)
        *parent = device_of(g);
    return result;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) {
    HOLD_LOCK;
    struct gpu *g;
    struct instance *i;
    nvmlReturn_t result = mig_device(device, attributes, &g, &i);
    if (result != NVML_SUCCESS)
        return result;
    const struct profile *p = i->profile;
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = p->multiprocessors, .sharedCopyEngineCount = p->copy, .sharedDecoderCount = p->decoders,
        .sharedJpegCount = p->jpeg, .sharedOfaCount = p->ofa, .gpuInstanceSliceCount = p->slices,
        .computeInstanceSliceCount = p->slices, .memorySizeMB = p->mib,
    };
    return NVML_SUCCESS;
}

nvmlReturn_t mig_uuid(nvmlDevice_t device, char *uuid, unsigned length) {
    HOLD_LOCK;
    struct gpu *g;
    struct instance *i;
    nvmlReturn_t result = mig_device(device, uuid, &g, &i);
    return result == NVML_SUCCESS ? answer_text(uuid, length, i->uuid) : result;
}

nvmlReturn_t mig_handle_by_uuid(const char *uuid, nvmlDevice_t *device) {
    HOLD_LOCK;
    if (state_read != NVML_SUCCESS)
        return state_read;
    for (unsigned n = 0; n < answers.count && device != NULL; n++)
        for (unsigned i = 0; i < max_instances; i++) {
            struct gpu *g = &answers.gpus[n];
            if (uuid[0] != '\0' && strcmp(uuid, g->instances[i].uuid) == 0) {
                device->handle = instance_handle(g, &g->instances[i]);
                return g->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
            }
        }
    return NVML_ERROR_NOT_FOUND;
}
