// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"plumbline.dev/plumbline/lab/cache"
)

// refresh brings the package lists up to date in the lab's own folder.
func (a *Archive) refresh(ctx context.Context) error {
	for _, dir := range []string{"apt/state/lists/partial", "apt/cache", "apt/log"} {
		if err := os.MkdirAll(a.cache.Path(dir), 0o755); err != nil {
			return err
		}
	}
	unlock, err := cache.Lock(ctx, a.cache.Path("apt", "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	dump, err := exec.CommandContext(ctx, "apt-config", "dump").Output()
	if err != nil {
		return fmt.Errorf("read the host's apt configuration: %w", err)
	}
	status := a.cache.Path("apt", "status")
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(a.cache.Path("apt", "apt.conf"), []byte(config(string(dump), a.cache.Path("apt"))), 0o644); err != nil {
		return err
	}
	if _, err := a.run(ctx, "", "apt-get", "update"); err != nil {
		return fmt.Errorf("refresh package lists: %w", err)
	}
	return nil
}

// config writes an apt configuration that keeps how the host reaches its
// sources and nothing else of it: the host's hooks (Post-Invoke) write where
// they please. Where apt.conf(5) lets a value name a folder, it names one
// below dir.
func config(hostDump, dir string) string {
	var b strings.Builder
	for line := range strings.Lines(hostDump) {
		if strings.HasPrefix(line, "Acquire::") || strings.HasPrefix(line, "APT::Architecture") {
			b.WriteString(line)
		}
	}
	set := func(name, value string) { fmt.Fprintf(&b, "%s %q;\n", name, value) }
	set("Dir::Etc::Main", "/dev/null")
	set("Dir::Etc::Parts", "/dev/null")
	set("Dir::State", filepath.Join(dir, "state"))
	set("Dir::State::Lists", filepath.Join(dir, "state", "lists"))
	// Nothing counts as installed, so that dependencies come complete.
	set("Dir::State::status", filepath.Join(dir, "status"))
	set("Dir::Cache", filepath.Join(dir, "cache"))
	set("Dir::Log", filepath.Join(dir, "log"))
	// Locks and a download user of its own are for the one system-wide
	// state; this one is locked by the cache.
	set("Debug::NoLocking", "1")
	set("APT::Sandbox::User", "")
	return b.String()
}

// concrete replaces each package that stands for another one by that other
// one: linux-image-amd64 by linux-image-6.1.0-41-amd64.
func (a *Archive) concrete(ctx context.Context, packages []string) ([]string, error) {
	var names []string
	for _, name := range packages {
		if !strings.HasPrefix(name, "linux-image-") && !strings.HasPrefix(name, "linux-headers-") {
			names = append(names, name)
			continue
		}
		depends, err := a.run(ctx, "", "apt-cache", "--no-recommends", "--no-suggests", "depends", name)
		if err != nil {
			return nil, fmt.Errorf("look up %s: %w", name, err)
		}
		names = append(names, standsFor(name, depends))
	}
	return names, nil
}

// standsFor returns the versioned package that name depends on, or name.
func standsFor(name, depends string) string {
	prefix := strings.Join(strings.SplitN(name, "-", 3)[:2], "-") + "-"
	for line := range strings.Lines(depends) {
		target, found := strings.CutPrefix(strings.TrimSpace(line), "Depends: ")
		if found && strings.HasPrefix(target, prefix) && !strings.HasSuffix(target, "-common") {
			return target
		}
	}
	return name
}
