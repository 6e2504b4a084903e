// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package debian brings Debian packages into the lab's cache: the guest's
// kernel and userland, and QEMU where the host has none. It asks apt for them
// with state folders of the lab's own and unpacks them without installing, so
// that it needs no root and changes nothing on the host.
package debian

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/progress"
)

// Archive is the distribution the host's own apt sources name.
type Archive struct {
	cache    *cache.Cache
	progress *progress.Printer
	release  string
	// host are the host's own release's lists, newer those of a newer one.
	host, newer *lists
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
	a.host = newLists(c.Path("apt"), nil)
	a.newer = newLists(c.Path("apt-"+newerRelease), a.newerSources)
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
	// Newer takes the packages from a newer release than the host's may be.
	Newer bool
	// Kernel, where set, says that the packages are named by a kernel's version, such
	// as linux-modules of linux-modules-7.3.4+deb13-amd64. The newest is taken, and it
	// is an error when that is older than this.
	Kernel string
}

// Fetch returns a folder with the set's packages unpacked, with all they
// depend on unless the set says otherwise. A set once fetched is not looked
// up again: a newer build of a package appears with a newer Debian release or
// an empty cache.
func (a *Archive) Fetch(ctx context.Context, s Set) (string, error) {
	key := new(cache.Key).Add(a.release, fmt.Sprint(s.Alone)).Add(s.Packages...)
	if s.Newer {
		key.Add(newerRelease, s.Kernel)
	}
	return a.cache.Do(ctx, a.progress, cache.Step{
		Name: s.Name, Title: s.Title, Done: "unpacked", Key: key.String(),
		Make: func(ctx context.Context, out string) error { return a.fetch(ctx, s, out) },
	})
}

func (a *Archive) fetch(ctx context.Context, s Set, out string) error {
	updateErr := a.lists(s).update(ctx)
	debs, err := a.download(ctx, s)
	if err != nil {
		// Stale or missing lists are the usual reason, so tell both.
		return errors.Join(err, updateErr)
	}
	for _, deb := range debs {
		if _, err := a.lists(s).run(ctx, "", "dpkg-deb", "-x", deb, out); err != nil {
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

func (a *Archive) lists(s Set) *lists {
	if s.Newer {
		return a.newer
	}
	return a.host
}

// debs is where a set's package files lie while it is fetched.
func (a *Archive) debs(s Set) string { return a.lists(s).path("debs", s.Name) }

// download returns the package files of the set.
func (a *Archive) download(ctx context.Context, s Set) (debs []string, err error) {
	dir := a.debs(s)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "partial"), 0o755); err != nil {
		return nil, err
	}
	l := a.lists(s)
	packages, err := l.packages(ctx, s)
	if err != nil {
		return nil, err
	}
	args := []string{"-o", "Dir::Cache::Archives=" + dir, "--assume-yes", "--no-install-recommends"}
	if s.Alone {
		args = append(args, "download")
	} else {
		args = append(args, "--download-only", "install")
	}
	if _, err := l.run(ctx, dir, "apt-get", append(args, packages...)...); err != nil {
		return nil, fmt.Errorf("download %s: %w", strings.Join(packages, ", "), err)
	}
	debs, err = filepath.Glob(filepath.Join(dir, "*.deb"))
	if err == nil && len(debs) == 0 {
		err = fmt.Errorf("download %s: apt-get brought nothing", strings.Join(packages, ", "))
	}
	return debs, err
}
