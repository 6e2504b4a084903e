// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Unlimited is a limit that there is none of (RLIM_INFINITY).
const Unlimited = math.MaxUint64

// ParseMemlock reads the hard limit of locked memory from /proc/PID/limits, in bytes:
// what a process may raise its own limit to.
func ParseMemlock(text []byte) (uint64, error) {
	const label = "Max locked memory"
	for line := range bytes.Lines(text) {
		// Limit, soft limit, hard limit, unit (fs/proc/base.c, proc_pid_limits)
		rest, ok := bytes.CutPrefix(line, []byte(label))
		if !ok {
			continue
		}
		f := bytes.Fields(rest)
		if len(f) < 2 {
			return 0, fmt.Errorf("line %q: %.80q: want two limits", label, bytes.TrimSpace(rest))
		}
		if string(f[1]) == "unlimited" {
			return Unlimited, nil
		}
		n, err := strconv.ParseUint(string(f[1]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("line %q: %.80q: want a number of bytes or unlimited", label, f[1])
		}
		return n, nil
	}
	return 0, fmt.Errorf("no line %q", label)
}

// ParseParent reads the parent's number from /proc/PID/status.
func ParseParent(text []byte) (pid int, err error) {
	_, rest, found := bytes.Cut(text, []byte("\nPPid:"))
	if !found {
		return 0, errors.New(`no line "PPid:"`)
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	pid, err = strconv.Atoi(string(bytes.TrimSpace(line)))
	if err != nil || pid < 0 {
		return 0, fmt.Errorf("line %q: %.80q: want the number of a process", "PPid:", line)
	}
	return pid, nil
}

// capIPCLock lets a process lock any amount of memory (include/uapi/linux/capability.h).
const capIPCLock = 14

// ParseLocksMemory says by /proc/PID/status whether a process may lock any amount of
// memory whatever its limit is (CAP_IPC_LOCK).
func ParseLocksMemory(text []byte) bool {
	_, rest, found := bytes.Cut(text, []byte("\nCapEff:"))
	if !found {
		return false
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	set, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return err == nil && set&(1<<capIPCLock) != 0
}
