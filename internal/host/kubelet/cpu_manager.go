// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package kubelet reads files of this host's kubelet. Nothing here writes, or calls it.
package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CPUManagerFile is the CPU manager's checkpoint below the kubelet's root
// (pkg/kubelet/cm/cpumanager/cpu_manager.go, cpuManagerStateFileName).
const CPUManagerFile = "cpu_manager_state"

// PolicyStatic is the policy with which the kubelet itself allocates CPUs.
const PolicyStatic = "static"

// checkpointAtMost is above what the file has on a node full of pods with CPUs of
// their own.
const checkpointAtMost = 4 << 20

// CPUManager is what the checkpoint says.
type CPUManager struct {
	// Policy is none or static.
	Policy string
	// Stale: the kubelet has replaced the file since it was bind-mounted for this
	// process, which still sees the old one.
	Stale bool
}

// ReadCPUManager reads the checkpoint below the kubelet's root. The error is
// fs.ErrNotExist where there is none: a kubelet without a CPU manager, or one
// whose directory is not shown to this process.
func ReadCPUManager(root string) (CPUManager, error) {
	f, err := os.Open(filepath.Join(root, CPUManagerFile))
	if err != nil {
		return CPUManager{}, fmt.Errorf("read the kubelet's CPU manager policy: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err != nil {
		return CPUManager{}, fmt.Errorf("read the kubelet's CPU manager policy: %w", err)
	}
	if !info.Mode().IsRegular() {
		return CPUManager{}, fmt.Errorf("read the kubelet's CPU manager policy: %s is not a file: %w", f.Name(), fs.ErrNotExist)
	}
	m, err := decodeCPUManager(f)
	if err != nil {
		return CPUManager{}, fmt.Errorf("read the kubelet's CPU manager policy: %s: %w", f.Name(), err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	m.Stale = ok && stat.Nlink == 0
	return m, nil
}

func decodeCPUManager(r io.Reader) (CPUManager, error) {
	text, err := io.ReadAll(io.LimitReader(r, checkpointAtMost))
	if err != nil {
		return CPUManager{}, err
	}
	var checkpoint struct {
		PolicyName string `json:"policyName"`
	}
	if err := json.Unmarshal(text, &checkpoint); err != nil {
		return CPUManager{}, err
	}
	if checkpoint.PolicyName == "" {
		return CPUManager{}, errors.New("policyName is empty: want none or static")
	}
	return CPUManager{Policy: checkpoint.PolicyName}, nil
}
