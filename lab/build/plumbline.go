// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"plumbline.dev/plumbline/internal/ociimage"
	"plumbline.dev/plumbline/internal/release"
)

// Plumbline builds the project's own programs as a release does, those of the image
// and the one for people, into the cache's folder bin, and returns the content of
// the image. The go command itself knows whether anything changed, so there is no key.
func (b *Builder) Plumbline(ctx context.Context, architecture string) (ociimage.Image, error) {
	task := b.progress.Start("plumbline")
	content, err := b.plumbline(ctx, architecture)
	if err != nil {
		task.Fail()
		return ociimage.Image{}, err
	}
	task.Done("built")
	return content, nil
}

func (b *Builder) plumbline(ctx context.Context, architecture string) (ociimage.Image, error) {
	source, err := release.Open(ctx, b.source)
	if err != nil {
		return ociimage.Image{}, err
	}
	dir := b.cache.Path("bin")
	programs := append(slices.Clone(release.NodePrograms), release.Client)
	if err := source.Build(ctx, release.Platform{OS: "linux", Architecture: architecture}, programs, dir); err != nil {
		return ociimage.Image{}, err
	}
	return source.Content(dir, architecture)
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
