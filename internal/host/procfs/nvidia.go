// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// ParseGPUMinor reads from /proc/driver/nvidia/gpus/ADDRESS/information which
// /dev/nvidiaN the GPU is. NVIDIA's driver shows its files nowhere below
// /sys/dev.
func ParseGPUMinor(text []byte) (int, error) { return minorIn(text, "Device Minor:") }

// ParseCapabilityMinor reads from a file below /proc/driver/nvidia/capabilities, such
// as gpu0/mig/gi1/access, which /dev/nvidia-caps/nvidia-capN stands for it.
func ParseCapabilityMinor(text []byte) (int, error) { return minorIn(text, "DeviceFileMinor:") }

func minorIn(text []byte, key string) (int, error) {
	for l := range bytes.Lines(text) {
		value, ok := bytes.CutPrefix(l, []byte(key))
		if !ok {
			continue
		}
		minor, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 20)
		if err != nil {
			return 0, errors.New("line " + strings.TrimSuffix(key, ":") + ": want a number")
		}
		return int(minor), nil
	}
	return 0, errors.New("no line " + strings.TrimSuffix(key, ":"))
}

// MIGInstance is a GPU instance of a GPU that is split up (MIG), or a compute instance
// of it.
type MIGInstance struct {
	// GPU is the minor of the GPU: N of /dev/nvidiaN.
	GPU int
	// Instance is the GPU instance, Compute the compute instance in it; nil for the
	// GPU instance itself.
	Instance int
	Compute  *int
}

// ParseMIGMinors reads /proc/driver/nvidia-caps/mig-minors, by the minors: which
// instance each /dev/nvidia-caps/nvidia-capN is for. Lines of other capabilities, such
// as "config 1", are passed over.
func ParseMIGMinors(text []byte) map[int]MIGInstance {
	minors := map[int]MIGInstance{}
	for l := range strings.Lines(string(text)) {
		fields := strings.Fields(l)
		if len(fields) != 2 {
			continue
		}
		minor, err := strconv.ParseUint(fields[1], 10, 20)
		if instance, ok := migInstance(fields[0]); ok && err == nil {
			minors[int(minor)] = instance
		}
	}
	return minors
}

// migInstance reads "gpu0/gi1/access" and "gpu0/gi1/ci0/access".
func migInstance(name string) (MIGInstance, bool) {
	parts := strings.Split(name, "/")
	if len(parts) < 3 || len(parts) > 4 || parts[len(parts)-1] != "access" {
		return MIGInstance{}, false
	}
	var numbers []int
	for i, part := range parts[:len(parts)-1] {
		digits, ok := strings.CutPrefix(part, []string{"gpu", "gi", "ci"}[i])
		n, err := strconv.ParseUint(digits, 10, 16)
		if !ok || err != nil {
			return MIGInstance{}, false
		}
		numbers = append(numbers, int(n))
	}
	m := MIGInstance{GPU: numbers[0], Instance: numbers[1]}
	if len(numbers) == 3 {
		m.Compute = &numbers[2]
	}
	return m, true
}

// ParseCharMajor finds in /proc/devices the major of a character device by the name of
// its driver; false where it has none.
func ParseCharMajor(text []byte, name string) (int, bool) {
	for l := range strings.Lines(string(text)) {
		fields := strings.Fields(l)
		if len(fields) == 2 && fields[0] == "Block" {
			break
		}
		if len(fields) != 2 || fields[1] != name {
			continue
		}
		if major, err := strconv.ParseUint(fields[0], 10, 12); err == nil {
			return int(major), true
		}
	}
	return 0, false
}

// ParseGPUUUID reads from /proc/driver/nvidia/gpus/ADDRESS/information the GPU's UUID, by
// which NVIDIA's device plugin calls it. Until the driver has initialised the GPU it
// writes question marks, which are no UUID.
func ParseGPUUUID(text []byte) (string, error) {
	const key = "GPU UUID:"
	for l := range bytes.Lines(text) {
		value, ok := bytes.CutPrefix(l, []byte(key))
		if !ok {
			continue
		}
		uuid := string(bytes.TrimSpace(value))
		if !strings.HasPrefix(uuid, "GPU-") || strings.Contains(uuid, "?") {
			return "", errors.New("line GPU UUID: want a UUID")
		}
		return uuid, nil
	}
	return "", errors.New("no line GPU UUID")
}
