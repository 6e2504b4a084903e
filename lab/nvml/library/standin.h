// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// What the parts of the stand-in share.

#ifndef STANDIN_H
#define STANDIN_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

#include "nvml.h"

enum { max_gpus = 64, max_profiles = 32, max_instances = 7 };

struct address {
    unsigned domain, bus, device, function;
};

// struct profile is what a GPU of a product may be cut into. Engines are of one instance.
struct profile {
    char name[32], product[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    unsigned number, id; // NVML's constant, and the product's own number
    unsigned slices, instances, multiprocessors, copy, decoders, jpeg, ofa, mib;
    unsigned size, starts; // how many slices of memory, and a bit for each where it may begin
};

// struct instance is a GPU instance, with its compute instance where it has one.
struct instance {
    const struct profile *profile; // NULL where there is none
    unsigned start;
    char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE]; // empty without a compute instance
};

struct gpu {
    struct address at;
    unsigned minor;
    char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
    unsigned vendor, product;
    bool has_memory;
    unsigned long long memory; // bytes
    nvmlDeviceArchitecture_t architecture;
    unsigned compute_major, compute_minor;
    nvmlBrandType_t brand;
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    bool lost; // fell off the bus
    bool mig, mig_pending;
    struct instance instances[max_instances];
};

struct table {
    char driver[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
    bool has_cuda;
    unsigned cuda_major, cuda_minor;
    unsigned count, profile_count;
    struct gpu gpus[max_gpus];
    struct profile profiles[max_profiles];
};

#pragma GCC visibility push(hidden)

// The lock guards what is below it.
extern pthread_mutex_t lock;
extern unsigned initialised; // calls of init without their shutdown
extern struct table answers;
extern char state_path[PATH_MAX], capabilities_path[PATH_MAX];

// complain says on stderr what a return code cannot.
void complain(const char *format, ...);

// number reads digits and nothing else: no sign, no space, no prefix.
bool number(const char *text, int base, unsigned long max, unsigned *value);

// copy_text copies a text that must fit and not be empty.
bool copy_text(char *to, size_t size, const char *text);
nvmlReturn_t answer_text(char *to, unsigned size, const char *text);

// gpu_at is the GPU of an address, NULL where there is none. The caller holds the lock.
struct gpu *gpu_at(const char *address);

// hangs says whether the file of events has a GPU hang. The caller holds the lock.
bool hangs(const struct gpu *g);

// wait_ms waits, poll_ms between two looks into the file of events.
enum { poll_ms = 50 };
void wait_ms(long ms);

// index_of is the GPU of a handle. The caller holds the lock.
nvmlReturn_t index_of(nvmlDevice_t device, unsigned *index);

// parse_profile reads what follows the word mig, and returns what is wrong with it.
const char *parse_profile(char *rest, struct table *t);

// profile_by_id is NULL where the GPU's product has no such profile.
const struct profile *profile_by_id(const struct gpu *g, unsigned id);

// An instance is numbered from 1 in its GPU. Its only compute instance has the first number.
enum { compute_id = 0 };
unsigned instance_id(const struct gpu *g, const struct instance *i);

// take_state keeps other processes out, and reads what they have made; give_state lets
// them in again. The caller holds the lock.
int take_state(void);
void give_state(int taken);

// state_read is what reading came to.
extern nvmlReturn_t state_read;

// save_state writes what has changed; without success nothing has. made counts MIG devices.
nvmlReturn_t save_state(void);
extern unsigned made;

// show_capability makes the file by which NVIDIA's kernel driver tells of an instance, or
// of its compute instance; hide_capability takes it away.
nvmlReturn_t show_capability(const struct gpu *g, const struct instance *i, bool compute);
void hide_capability(const struct gpu *g, const struct instance *i, bool compute);

bool is_mig_handle(nvmlDevice_t device);
nvmlReturn_t mig_uuid(nvmlDevice_t device, char *uuid, unsigned length);
nvmlReturn_t mig_handle_by_uuid(const char *uuid, nvmlDevice_t *device);

#pragma GCC visibility pop

#endif
