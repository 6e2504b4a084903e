// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostsetup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// loader loads and unloads modules. It leaves those that came along with one when it
// goes: the host is then as it was.
type loader struct {
	host Host
	// dir has the file that says what came along with what since the boot.
	dir, bootID string
	// modprobe is the host's, and returns what it printed.
	modprobe func(ctx context.Context, args ...string) ([]byte, error)
	// remove is delete_module(2).
	remove func(module string) error
}

// along are modules that were loaded with another, by its name, in the order of loading.
type along struct {
	BootID string              `json:"bootID"`
	With   map[string][]string `json:"with"`
}

func (l loader) along() (a along, err error) {
	err = load(l.dir, modulesFile, &a)
	if a.BootID != l.bootID || a.With == nil {
		a = along{BootID: l.bootID, With: map[string][]string{}}
	}
	return a, err
}

// load has a module loaded, or says that it is part of the kernel.
func (l loader) load(ctx context.Context, module string) (builtIn bool, err error) {
	out, err := l.modprobe(ctx, "--show-depends", module)
	if err != nil {
		return false, err
	}
	needs, builtIn := parseDepends(string(out))
	if builtIn {
		return true, nil
	}
	came, err := l.along()
	if err != nil {
		return false, err
	}
	for _, need := range needs {
		there, err := l.host.loaded(need)
		if err != nil {
			return false, err
		}
		if !there && need != module && !slices.Contains(came.With[module], need) {
			came.With[module] = append(came.With[module], need)
		}
	}
	// Before the first of them is loaded: whoever is killed in between unloads all.
	if err := save(l.dir, modulesFile, came); err != nil {
		return false, err
	}
	_, err = l.modprobe(ctx, module)
	return false, err
}

// parseDepends reads what modprobe --show-depends prints: a line for each file that it
// would load, in order, or that the module is part of the kernel.
func parseDepends(text string) (modules []string, builtIn bool) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "builtin":
			builtIn = true
		case "insmod":
			name, _, _ := strings.Cut(filepath.Base(words[1]), ".")
			modules = append(modules, strings.ReplaceAll(name, "-", "_"))
		}
	}
	return modules, builtIn && len(modules) == 0
}

// unload unloads a module, and then what came along with it and nobody uses.
func (l loader) unload(module string) error {
	if err := l.removeUnused(module); err != nil {
		return err
	}
	came, err := l.along()
	if err != nil {
		return err
	}
	with, noted := came.With[module]
	for _, m := range slices.Backward(with) {
		if err := l.removeUnused(m); err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
	}
	if !noted {
		return nil
	}
	delete(came.With, module)
	return save(l.dir, modulesFile, came)
}

func (l loader) removeUnused(module string) error {
	err := l.remove(module)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("module %s is in use: %w", module, err)
	}
	return fmt.Errorf("unload module %s: %w", module, err)
}

func deleteModule(module string) error { return unix.DeleteModule(module, unix.O_NONBLOCK) }

// modprobeLimit is for modules that look for hardware when they start.
const modprobeLimit = time.Minute

// hostsModprobe runs the modprobe of the file system at root, which knows the files of
// modules as the distribution packs them, and the administrator's options in
// /etc/modprobe.d.
func hostsModprobe(root string) func(context.Context, ...string) ([]byte, error) {
	return func(ctx context.Context, args ...string) ([]byte, error) {
		file, err := findModprobe(root)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, modprobeLimit)
		defer cancel()
		cmd := exec.CommandContext(ctx, file, args...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		var problems bytes.Buffer
		cmd.Stderr = &problems
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("the host's %s %s: %w: %s", file, strings.Join(args, " "), err, strings.TrimSpace(problems.String()))
		}
		return out, nil
	}
}

func findModprobe(root string) (string, error) {
	places := []string{"/usr/sbin/modprobe", "/sbin/modprobe", "/usr/bin/modprobe", "/bin/modprobe"}
	for _, place := range places {
		if _, err := os.Lstat(filepath.Join(root, place)); err == nil {
			return place, nil
		}
	}
	return "", fmt.Errorf("the host has no modprobe (%s): load modules as its distribution does", strings.Join(places, ", "))
}
