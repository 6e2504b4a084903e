// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/debian"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/progress"
)

// Workshop makes what a cluster is run from.
type Workshop struct {
	cache    *cache.Cache
	progress *progress.Printer
	builder  *build.Builder
	archive  *debian.Archive
}

// Parts are the programs and files a cluster is run from.
type Parts struct {
	// Hyperkube and Runc are programs.
	Hyperkube, Runc string
	// Containerd and CNI are folders of programs.
	Containerd, CNI string
	// QEMU is the emulator.
	QEMU debian.Program
	// Kernel is the guest's kernel image, Modules the folder of its modules.
	Kernel, Modules string
	// Busybox is a static busybox, Applets the commands it provides.
	Busybox string
	Applets []string
	// NetworkTools is the folder into which iproute2 and ethtool are unpacked.
	NetworkTools string
	// PCIIDs is the database of PCI names.
	PCIIDs string
	// GuestInit is the guest's first program.
	GuestInit string
	// Images is an archive of the images that no registry has.
	Images string
}

// NewWorkshop returns a workshop for the checkout at source, or says which
// tool of the host is missing.
func NewWorkshop(ctx context.Context, c *cache.Cache, p *progress.Printer, source string) (*Workshop, error) {
	builder, err := build.New(ctx, c, p, source)
	if err != nil {
		return nil, err
	}
	archive, err := debian.Open(c, p)
	if err != nil {
		return nil, err
	}
	return &Workshop{cache: c, progress: p, builder: builder, archive: archive}, nil
}

// seccompSet is what runc is linked against.
func seccompSet() debian.Set {
	return debian.Set{
		Name: "libseccomp", Title: "libseccomp", Alone: true,
		Packages: []string{"libseccomp-dev"},
	}
}

// All makes everything. Downloads run beside the builds: those wait for the
// network, these for processors.
func (w *Workshop) All(ctx context.Context) (*Parts, error) {
	parts := &Parts{}
	group, groupCtx := errgroup.WithContext(ctx)
	seccomp := make(chan string, 1)
	group.Go(func() error {
		defer close(seccomp)
		return w.fetch(groupCtx, parts, seccomp)
	})
	// One after the other: a single build already uses every processor.
	group.Go(func() error { return w.build(groupCtx, parts, seccomp) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return parts, w.pack(ctx, parts)
}

// fetch gets what comes from Debian. The folder of libseccomp goes into
// seccomp as soon as it is there, for runc to be built.
func (w *Workshop) fetch(ctx context.Context, parts *Parts, seccomp chan<- string) error {
	root, err := w.archive.Fetch(ctx, seccompSet())
	if err != nil {
		return err
	}
	seccomp <- root
	if parts.PCIIDs, err = w.archive.PCIIDs(ctx); err != nil {
		return err
	}
	return w.fetchGuest(ctx, parts)
}

// Guest makes what a virtual machine without Kubernetes needs.
func (w *Workshop) Guest(ctx context.Context) (parts *Parts, err error) {
	parts = &Parts{}
	if err := w.fetchGuest(ctx, parts); err != nil {
		return nil, err
	}
	parts.GuestInit, err = w.builder.GuestInit(ctx)
	return parts, err
}

// fetchGuest gets the emulator, a kernel and its userland.
func (w *Workshop) fetchGuest(ctx context.Context, parts *Parts) (err error) {
	if parts.Kernel, parts.Modules, err = w.archive.Kernel(ctx); err != nil {
		return err
	}
	if parts.NetworkTools, err = w.archive.NetworkTools(ctx); err != nil {
		return err
	}
	if parts.Busybox, err = w.archive.Busybox(ctx); err != nil {
		return err
	}
	if parts.Applets, err = image.Applets(ctx, parts.Busybox); err != nil {
		return err
	}
	parts.QEMU, err = w.archive.QEMU(ctx)
	return err
}

// Program is the path of one of plumbline's own programs, as last built.
func (w *Workshop) Program(name string) (string, error) {
	path := w.cache.Path("bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return path, nil
}

func (w *Workshop) build(ctx context.Context, parts *Parts, seccomp <-chan string) (err error) {
	if parts.Hyperkube, err = w.builder.Hyperkube(ctx); err != nil {
		return err
	}
	if parts.Containerd, err = w.builder.Containerd(ctx); err != nil {
		return err
	}
	if parts.CNI, err = w.builder.CNI(ctx); err != nil {
		return err
	}
	if parts.GuestInit, err = w.builder.GuestInit(ctx); err != nil {
		return err
	}
	root, fetched := <-seccomp
	if !fetched {
		// The other half failed, and tells why.
		return nil
	}
	parts.Runc, err = w.builder.Runc(ctx, root)
	return err
}

// pack makes the archive of images. The project's own programs change with
// every edit, so it is made each time.
func (w *Workshop) pack(ctx context.Context, parts *Parts) error {
	dir, names, err := w.builder.Plumbline(ctx)
	if err != nil {
		return err
	}
	images := image.BusyboxImages(parts.Busybox, parts.Applets)
	own, err := image.PlumblineImage(dir, names, parts.PCIIDs)
	if err != nil {
		return err
	}
	maps.Copy(images, own)
	parts.Images = w.cache.Path("images.tar")
	return image.Write(parts.Images, images)
}

// DRANET makes what plumbline is measured beside: an archive with its image, and
// the program that looks at links as it does.
func (w *Workshop) DRANET(ctx context.Context) (archive, scan string, err error) {
	dir, err := w.builder.DRANET(ctx)
	if err != nil {
		return "", "", err
	}
	archive = w.cache.Path("dranet.tar")
	return archive, filepath.Join(dir, "dranet-scan"), image.Write(archive, image.DRANETImage(filepath.Join(dir, "dranet")))
}
