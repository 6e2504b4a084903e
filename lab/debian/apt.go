// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"plumbline.dev/plumbline/lab/cache"
)

// lists are package lists and what apt needs beside them, in a folder of their own.
type lists struct {
	dir string
	// sources, where set, writes a file of sources that apt is to use in place of
	// the host's.
	sources func(ctx context.Context, file string) error

	once    sync.Once
	updated error
}

// newLists returns the lists of a folder. Without sources they are the host's.
func newLists(dir string, sources func(context.Context, string) error) *lists {
	return &lists{dir: dir, sources: sources}
}

func (l *lists) path(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

// update brings the package lists up to date, once a run.
func (l *lists) update(ctx context.Context) error {
	l.once.Do(func() { l.updated = l.refresh(ctx) })
	return l.updated
}

func (l *lists) refresh(ctx context.Context) error {
	for _, dir := range []string{"state/lists/partial", "cache", "log"} {
		if err := os.MkdirAll(l.path(dir), 0o755); err != nil {
			return err
		}
	}
	unlock, err := cache.Lock(ctx, l.path("lock"))
	if err != nil {
		return err
	}
	defer unlock()
	dump, err := exec.CommandContext(ctx, "apt-config", "dump").Output()
	if err != nil {
		return fmt.Errorf("read the host's apt configuration: %w", err)
	}
	if err := os.WriteFile(l.path("status"), nil, 0o644); err != nil {
		return err
	}
	sources := ""
	if l.sources != nil {
		sources = l.path("lab.sources")
		if err := l.sources(ctx, sources); err != nil {
			return err
		}
	}
	if err := os.WriteFile(l.path("apt.conf"), []byte(config(string(dump), l.dir, sources)), 0o644); err != nil {
		return err
	}
	if _, err := l.run(ctx, "", "apt-get", "update"); err != nil {
		return fmt.Errorf("refresh package lists: %w", err)
	}
	return nil
}

// run calls one of apt's tools with the lab's own configuration.
func (l *lists) run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "APT_CONFIG="+l.path("apt.conf"), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
	return stdout.String(), nil
}

// config writes an apt configuration that keeps how the host reaches its
// sources and nothing else of it: the host's hooks (Post-Invoke) write where
// they please. Where apt.conf(5) lets a value name a folder, it names one
// below dir. A file of sources, where one is named, is in place of the host's.
func config(hostDump, dir, sources string) string {
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
	if sources != "" {
		set("Dir::Etc::SourceList", sources)
		set("Dir::Etc::SourceParts", "/dev/null")
	}
	// Locks and a download user of its own are for the one system-wide
	// state; this one is locked by the cache.
	set("Debug::NoLocking", "1")
	set("APT::Sandbox::User", "")
	return b.String()
}

// concrete replaces each package that stands for another one by that other
// one: linux-image-amd64 by linux-image-6.1.0-41-amd64.
func (l *lists) concrete(ctx context.Context, packages []string) ([]string, error) {
	var names []string
	for _, name := range packages {
		if !strings.HasPrefix(name, "linux-image-") && !strings.HasPrefix(name, "linux-headers-") {
			names = append(names, name)
			continue
		}
		depends, err := l.run(ctx, "", "apt-cache", "--no-recommends", "--no-suggests", "depends", name)
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
