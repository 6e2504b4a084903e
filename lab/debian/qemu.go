// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Program is a command with the arguments it always needs first and its whole
// environment.
type Program struct {
	Path string
	Args []string
	Env  []string
}

// qemuName is the emulator the lab's machines run in.
const qemuName = "qemu-system-x86_64"

// QEMU returns the host's emulator where it is new enough for NUMA-aware PCI
// bridges with HMAT (7.2 is the oldest tried), and otherwise Debian's,
// unpacked into the cache and run with its own loader and libraries.
func (a *Archive) QEMU(ctx context.Context) (Program, error) {
	return a.emulator(ctx, 7, 2, Set{Name: "qemu", Title: "QEMU (unpacked, not installed)", Packages: []string{"qemu-system-x86"}})
}

// RDMAQEMU is QEMU with one that has a NIC with virtual functions (igb), which came
// with 8.0.
func (a *Archive) RDMAQEMU(ctx context.Context) (Program, error) {
	return a.emulator(ctx, 8, 0, Set{Name: "qemu-rdma", Title: "newer QEMU (unpacked, not installed)", Packages: []string{"qemu-system-x86"}, Newer: true})
}

// emulator returns the host's where it is of that version or newer, else the set's.
func (a *Archive) emulator(ctx context.Context, major, minor int, s Set) (Program, error) {
	if path, err := exec.LookPath(qemuName); err == nil {
		out, err := exec.CommandContext(ctx, path, "--version").Output()
		if err == nil && newEnough(string(out), major, minor) {
			return Program{Path: path}, nil
		}
	}
	root, err := a.Fetch(ctx, s)
	if err != nil {
		return Program{}, fmt.Errorf("%w\ninstalling the package qemu-system-x86 would do as well", err)
	}
	return unpackedQEMU(root)
}

func unpackedQEMU(root string) (Program, error) {
	loader, err := match(root, "lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2")
	if err != nil {
		return Program{}, err
	}
	var libs []string
	for _, dir := range []string{"lib", "usr/lib"} {
		libs = append(libs, filepath.Join(root, dir, "x86_64-linux-gnu"))
	}
	// pulseaudio's private library has a folder of its own.
	libs = append(libs, filepath.Join(libs[1], "pulseaudio"))
	p := Program{
		Path: loader,
		// Where it looks for the modules that it loads on demand, tcg among them.
		Env:  []string{"QEMU_MODULE_DIR=" + filepath.Join(libs[1], "qemu")},
		Args: []string{"--library-path", strings.Join(libs, ":"), filepath.Join(root, "usr/bin", qemuName)},
	}
	for _, data := range []string{"share/qemu", "share/seabios", "lib/ipxe/qemu"} {
		p.Args = append(p.Args, "-L", filepath.Join(root, "usr", data))
	}
	return p, nil
}

// newEnough reads "QEMU emulator version 7.2.17 (Debian ...)".
func newEnough(version string, wantMajor, wantMinor int) bool {
	_, rest, found := strings.Cut(version, "version ")
	parts := strings.SplitN(rest, ".", 3)
	if !found || len(parts) < 2 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(parts[1])
	return err == nil && (major > wantMajor || major == wantMajor && minor >= wantMinor)
}
