// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"plumbline.dev/plumbline/internal/release"
	"plumbline.dev/plumbline/lab/cache"
)

// Installation is what plumbline is installed from, as a release has it.
type Installation struct {
	// Image is the archive of the image, for the lab's architecture only, and Chart
	// the packed chart, which names it by its digest.
	Image, Chart string
}

// Plumbline makes what a release has of the project's own programs: those of the image,
// packed, with the chart, and the one for people, in the cache's folder bin. The image
// has a tag beside its digest.
func (b *Builder) Plumbline(ctx context.Context, architecture, reference string) (Installation, error) {
	source, err := release.Open(ctx, b.source)
	if err != nil {
		return Installation{}, err
	}
	work, key, err := b.programs(ctx, source, architecture)
	if err != nil {
		return Installation{}, err
	}
	const stem, chart = "plumbline", "plumbline.tgz"
	dir, err := b.cache.Do(ctx, b.progress, cache.Step{
		Name: "installation", Title: "image and chart", Done: "packed", Key: key.Add(reference).String(),
		Make: func(_ context.Context, out string) error {
			image, err := source.PackImage(work, architecture)
			if err != nil {
				return err
			}
			if _, err := image.Write(out, reference, stem); err != nil {
				return err
			}
			digest, err := image.Digest()
			if err != nil {
				return err
			}
			packed, err := source.Chart(release.Repository, digest.String())
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(out, chart), packed, 0o644)
		},
	})
	return Installation{Image: filepath.Join(dir, stem+".oci.tar"), Chart: filepath.Join(dir, chart)}, err
}

// programs builds the project's own programs, and returns the folder with those of the
// image and a key of all that is packed with them. The go command itself knows whether
// anything changed, so each time it is asked.
func (b *Builder) programs(ctx context.Context, source release.Source, architecture string) (work string, key *cache.Key, err error) {
	task := b.progress.Start("plumbline")
	work = b.cache.Path("bin")
	platform := release.Platform{OS: "linux", Architecture: architecture}
	dir := filepath.Join(work, platform.String())
	err = errors.Join(
		source.Build(ctx, platform, release.NodePrograms, dir),
		source.Build(ctx, platform, []string{release.Client}, work),
	)
	if err != nil {
		task.Fail()
		return "", nil, err
	}
	key = new(cache.Key).Add(source.Version, source.Commit, source.Time.String())
	for _, files := range []string{dir, filepath.Join(b.source, "deploy", "charts")} {
		if err := key.AddFiles(os.DirFS(files), nil); err != nil {
			task.Fail()
			return "", nil, fmt.Errorf("read %s: %w", files, err)
		}
	}
	task.Done("built")
	return work, key, nil
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
