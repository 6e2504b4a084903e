// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"plumbline.dev/plumbline/internal/host/sysfs"
)

// maxInput bounds what is read of the runtime's state and of a bundle's
// configuration. A state has a few hundred bytes.
const maxInput = 8 << 20

// state is what a hook is told on standard input
// (github.com/opencontainers/runtime-spec, runtime.md, State).
type state struct {
	ID          string            `json:"id"`
	PID         int               `json:"pid"`
	Bundle      string            `json:"bundle"`
	Annotations map[string]string `json:"annotations"`
}

// decodeState refuses a state without a process: there would be nothing to look
// at.
func decodeState(in io.Reader) (state, error) {
	var s state
	if err := decodeBounded(in, &s); err != nil {
		return state{}, fmt.Errorf("read the container's state: %w", err)
	}
	if s.PID <= 0 {
		return state{}, fmt.Errorf("read the container's state: pid %d: want the container's process", s.PID)
	}
	return s, nil
}

func decodeBounded(in io.Reader, into any) error {
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return err
	}
	if len(text) > maxInput {
		return fmt.Errorf("larger than %d bytes", maxInput)
	}
	return json.Unmarshal(text, into)
}

// pod names the pod as the container runtimes annotate it; the container's ID
// where they do not.
func (s state) pod() string {
	for _, keys := range [][2]string{
		{"io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name"},
		{"io.kubernetes.pod.namespace", "io.kubernetes.pod.name"},
	} {
		if namespace, name := s.Annotations[keys[0]], s.Annotations[keys[1]]; name != "" {
			return "pod " + namespace + "/" + name
		}
	}
	return "container " + s.ID
}

// ociConfig is what the guard reads of a container's configuration
// (github.com/opencontainers/runtime-spec, config.md, config-linux.md).
type ociConfig struct {
	Process struct {
		Env []string `json:"env"`
	} `json:"process"`
	Hooks struct {
		CreateRuntime []struct {
			Args []string `json:"args"`
		} `json:"createRuntime"`
	} `json:"hooks"`
	Linux struct {
		Devices []struct {
			Path         string `json:"path"`
			Major, Minor int64
		} `json:"devices"`
	} `json:"linux"`
}

// has says whether the container gets a device file.
func (c ociConfig) has(f sysfs.RDMAFile) bool {
	for _, d := range c.Linux.Devices {
		if d.Path == f.Path && d.Major == f.Number.Major && d.Minor == f.Number.Minor {
			return true
		}
	}
	return false
}

// config reads the configuration of the container's bundle.
func (s state) config() (ociConfig, error) {
	var config ociConfig
	f, err := os.Open(filepath.Join(s.Bundle, "config.json"))
	if err == nil {
		err = errors.Join(decodeBounded(f, &config), f.Close())
	}
	if err != nil {
		return config, fmt.Errorf("read the container's configuration: %w", err)
	}
	return config, nil
}

// all adds what the container's other hooks of this program want: each knows
// devices of one claim, and only all of them together say where the container may
// run.
func (s state) all(own []Want) ([]Want, error) {
	wants := slices.Clone(own)
	confines := slices.ContainsFunc(own, func(w Want) bool { return w.CPUs != "" || w.Mems != "" })
	if !confines || s.Bundle == "" {
		return wants, nil
	}
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	for _, h := range config.Hooks.CreateRuntime {
		if len(h.Args) < 2 || filepath.Base(h.Args[0]) != Program {
			continue
		}
		others, err := parseArgs(h.Args[1:])
		if err != nil {
			return nil, fmt.Errorf("read the container's configuration: %w", err)
		}
		for _, w := range others {
			if !slices.Contains(wants, w) {
				wants = append(wants, w)
			}
		}
	}
	return wants, nil
}
