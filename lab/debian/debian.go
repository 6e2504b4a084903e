// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package debian brings Debian packages into the lab's cache: the guest's
// kernel and userland, and QEMU where the host has none. It asks apt for them
// with state folders of the lab's own and unpacks them without installing, so
// that it needs no root and changes nothing on the host.
package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/progress"
)

// Archive is the distribution the host's own apt sources name.
type Archive struct {
	cache    *cache.Cache
	progress *progress.Printer
	release  string
	// update holds the outcome of refreshing the package lists, once a run.
	update func(context.Context) error
}

// Open returns the archive of the host's release, or says what is missing.
func Open(c *cache.Cache, p *progress.Printer) (*Archive, error) {
	for _, tool := range []string{"apt-get", "apt-cache", "apt-config", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("the lab takes its guest's kernel and userland from Debian packages; "+
				"run it on Debian 12 or newer, or in a container of it: %w", err)
		}
	}
	release, err := os.ReadFile("/etc/debian_version")
	if err != nil {
		return nil, fmt.Errorf("read the host's Debian release: %w", err)
	}
	a := &Archive{cache: c, progress: p, release: strings.TrimSpace(string(release))}
	var once sync.Once
	var updated error
	a.update = func(ctx context.Context) error {
		once.Do(func() { updated = a.refresh(ctx) })
		return updated
	}
	return a, nil
}

// Set names packages that are unpacked into one folder.
type Set struct {
	// Name names the folder, Title the progress line.
	Name, Title string
	// Packages are package names; "linux-image-amd64" and its like, which
	// only depend on the real one, are looked through.
	Packages []string
	// Alone leaves out what the packages depend on.
	Alone bool
}

// Fetch returns a folder with the set's packages unpacked, with all they
// depend on unless the set says otherwise. A set once fetched is not looked
// up again: a newer build of a package appears with a newer Debian release or
// an empty cache.
func (a *Archive) Fetch(ctx context.Context, s Set) (string, error) {
	key := new(cache.Key).Add(a.release, fmt.Sprint(s.Alone)).Add(s.Packages...)
	return a.cache.Do(ctx, a.progress, cache.Step{
		Name: s.Name, Title: s.Title, Done: "unpacked", Key: key.String(),
		Make: func(ctx context.Context, out string) error { return a.fetch(ctx, s, out) },
	})
}

func (a *Archive) fetch(ctx context.Context, s Set, out string) error {
	updateErr := a.update(ctx)
	debs, err := a.download(ctx, s)
	if err != nil {
		// Stale or missing lists are the usual reason, so tell both.
		return errors.Join(err, updateErr)
	}
	for _, deb := range debs {
		if _, err := a.run(ctx, "", "dpkg-deb", "-x", deb, out); err != nil {
			return fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
		}
	}
	return errors.Join(relink(out), os.RemoveAll(a.debs(s)))
}

// relink makes absolute links below root lead to root's files, not the
// host's.
func relink(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		target, err := os.Readlink(path)
		if err != nil || !filepath.IsAbs(target) {
			return err
		}
		relative, err := filepath.Rel(filepath.Dir(path), filepath.Join(root, target))
		if err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.Symlink(relative, path)
	})
}

// debs is where a set's package files lie while it is fetched.
func (a *Archive) debs(s Set) string { return a.cache.Path("apt", "debs", s.Name) }

// download returns the package files of the set.
func (a *Archive) download(ctx context.Context, s Set) (debs []string, err error) {
	dir := a.debs(s)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "partial"), 0o755); err != nil {
		return nil, err
	}
	packages, err := a.concrete(ctx, s.Packages)
	if err != nil {
		return nil, err
	}
	args := []string{"-o", "Dir::Cache::Archives=" + dir, "--assume-yes", "--no-install-recommends"}
	if s.Alone {
		args = append(args, "download")
	} else {
		args = append(args, "--download-only", "install")
	}
	if _, err := a.run(ctx, dir, "apt-get", append(args, packages...)...); err != nil {
		return nil, fmt.Errorf("download %s: %w", strings.Join(packages, ", "), err)
	}
	debs, err = filepath.Glob(filepath.Join(dir, "*.deb"))
	if err == nil && len(debs) == 0 {
		err = fmt.Errorf("download %s: apt-get brought nothing", strings.Join(packages, ", "))
	}
	return debs, err
}

// run calls one of apt's tools with the lab's own configuration.
func (a *Archive) run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "APT_CONFIG="+a.cache.Path("apt", "apt.conf"), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
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
