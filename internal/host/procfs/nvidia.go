// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"bytes"
	"errors"
	"strconv"
)

// ParseGPUMinor reads from /proc/driver/nvidia/gpus/ADDRESS/information which
// /dev/nvidiaN the GPU is. NVIDIA's driver shows its files nowhere below
// /sys/dev.
func ParseGPUMinor(text []byte) (int, error) {
	for l := range bytes.Lines(text) {
		value, ok := bytes.CutPrefix(l, []byte("Device Minor:"))
		if !ok {
			continue
		}
		minor, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 20)
		if err != nil {
			return 0, errors.New("line Device Minor: want a number")
		}
		return int(minor), nil
	}
	return 0, errors.New("no line Device Minor")
}
