// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// plumblinePrograms are the project's own programs that a node or a person at
// the lab needs.
var plumblinePrograms = []string{"plumbline", "plumbline-agent", "plumbline-explainer", "plumbline-guard"}

// plumblineTags leave out what is not used and costs every process memory: gRPC's
// tracing, whose templates keep the linker from dropping unused methods, and
// NRI's WebAssembly plugins. Together a quarter of the agent's memory.
const plumblineTags = "grpcnotrace,nri_no_wasm"

// Plumbline builds the project's own programs, statically, and returns the
// folder they are in and the names of those that the checkout has. The go
// command itself knows whether anything changed, so there is no key.
func (b *Builder) Plumbline(ctx context.Context) (dir string, names []string, err error) {
	dir = b.cache.Path("bin")
	g := goBuild{dir: b.source, ldflags: "-s -w", tags: plumblineTags, env: []string{"CGO_ENABLED=0"}}
	for _, name := range plumblinePrograms {
		_, err := os.Stat(filepath.Join(b.source, "cmd", name, "main.go"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", nil, err
		}
		names = append(names, name)
		g.packages = append(g.packages, "./cmd/"+name)
	}
	if len(names) == 0 {
		return "", nil, fmt.Errorf("build plumbline: no programs below %s/cmd", b.source)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	task := b.progress.Start("plumbline")
	if err := g.run(ctx, dir+"/"); err != nil {
		task.Fail()
		return "", nil, err
	}
	task.Done("built")
	return dir, names, nil
}

// GuestInit builds the first program of a virtual machine's guest.
func (b *Builder) GuestInit(ctx context.Context) (string, error) {
	const name = "guest-init"
	dir := b.cache.Path("bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	g := goBuild{
		dir: filepath.Join(b.source, "lab"), packages: []string{"./cmd/" + name},
		ldflags: "-s -w", env: []string{"CGO_ENABLED=0"},
	}
	return filepath.Join(dir, name), g.run(ctx, dir+"/")
}

// Source finds the checkout's root: the nearest folder at or above dir whose
// module is plumbline's.
func Source(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "lab", "build", "hyperkube", "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("find plumbline's source: none at or above %s: run plumblab inside a checkout, or name one with --source", dir)
		}
	}
}
