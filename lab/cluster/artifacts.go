// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"plumbline.dev/plumbline/internal/ociimage"
	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/debian"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/node"
	"plumbline.dev/plumbline/lab/progress"
	"plumbline.dev/plumbline/lab/vm/initramfs"
)

// ArtifactBuilder builds or downloads what a cluster is run from.
type ArtifactBuilder struct {
	cache    *cache.Cache
	progress *progress.Printer
	builder  *build.Builder
	archive  *debian.Archive
	// source is the checkout's root folder.
	source string
}

// Artifacts are the programs and files a cluster is run from.
type Artifacts struct {
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
	// HostTools is the folder into which iproute2, ethtool and kmod are unpacked.
	HostTools string
	// RDMATools is the folder into which perftest is unpacked, where the guest is
	// GuestRDMA.
	RDMATools string
	// GuestInit is the guest's first program.
	GuestInit string
	// Helm is a program, Chart what it installs plumbline from.
	Helm, Chart string
	// Images are archives of the images that no registry has.
	Images []string
	// NVIDIA is what serves GPUs where NVIDIA's driver does.
	NVIDIA NVIDIAArtifacts
}

// NewArtifactBuilder returns a builder for the checkout at source, or says which
// tool of the host is missing.
func NewArtifactBuilder(ctx context.Context, c *cache.Cache, p *progress.Printer, source string) (*ArtifactBuilder, error) {
	builder, err := build.New(ctx, c, p, source)
	if err != nil {
		return nil, err
	}
	archive, err := debian.Open(c, p)
	if err != nil {
		return nil, err
	}
	return &ArtifactBuilder{cache: c, progress: p, builder: builder, archive: archive, source: source}, nil
}

// seccompSet is what runc is linked against.
func seccompSet() debian.Set {
	return debian.Set{
		Name: "libseccomp", Title: "libseccomp", Alone: true,
		Packages: []string{"libseccomp-dev"},
	}
}

// All makes everything, and what serves GPUs with NVIDIA's DRA driver where nvidia says so.
// Downloads run beside the builds: those wait for the network, these for processors.
func (b *ArtifactBuilder) All(ctx context.Context, v build.Versions, nvidia bool) (*Artifacts, error) {
	if err := v.Check(); err != nil {
		return nil, err
	}
	artifacts := &Artifacts{}
	group, groupCtx := errgroup.WithContext(ctx)
	seccomp := make(chan string, 1)
	group.Go(func() error {
		defer close(seccomp)
		return b.fetch(groupCtx, artifacts, seccomp)
	})
	// One after the other: a single build already uses every processor.
	group.Go(func() error { return b.build(groupCtx, v, artifacts, seccomp) })
	var parts nvidiaParts
	if nvidia {
		// Beside Kubernetes' build: it takes minutes itself, and nothing else waits for it.
		group.Go(func() (err error) {
			parts, err = b.buildNVIDIA(groupCtx)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := b.pack(ctx, artifacts); err != nil || !nvidia {
		return artifacts, err
	}
	return artifacts, b.packNVIDIA(ctx, parts, artifacts)
}

// forNode makes everything that a node of these options takes.
func (b *ArtifactBuilder) forNode(ctx context.Context, o Options) (*Artifacts, error) {
	artifacts, err := b.All(ctx, o.Versions, o.GPUs == GPUsOfNVIDIA)
	if err != nil {
		return nil, err
	}
	if o.Guest != GuestRDMA {
		return artifacts, nil
	}
	if err := b.fetchRDMA(ctx, o.Guest, artifacts); err != nil {
		return nil, err
	}
	return artifacts, b.packPerftest(artifacts)
}

// fetch gets what comes from Debian. The folder of libseccomp goes into
// seccomp as soon as it is there, for runc to be built.
func (b *ArtifactBuilder) fetch(ctx context.Context, artifacts *Artifacts, seccomp chan<- string) error {
	root, err := b.archive.Fetch(ctx, seccompSet())
	if err != nil {
		return err
	}
	seccomp <- root
	return b.fetchGuest(ctx, artifacts)
}

// Guest makes what a virtual machine without Kubernetes needs.
func (b *ArtifactBuilder) Guest(ctx context.Context, kind string) (artifacts *Artifacts, err error) {
	artifacts = &Artifacts{}
	if err := b.fetchGuest(ctx, artifacts); err != nil {
		return nil, err
	}
	if err := b.fetchRDMA(ctx, kind, artifacts); err != nil {
		return nil, err
	}
	artifacts.GuestInit, err = b.builder.GuestInit(ctx)
	return artifacts, err
}

// fetchGuest gets the emulator, a kernel and its userland.
func (b *ArtifactBuilder) fetchGuest(ctx context.Context, artifacts *Artifacts) (err error) {
	if artifacts.Kernel, artifacts.Modules, err = b.archive.Kernel(ctx); err != nil {
		return err
	}
	if artifacts.HostTools, err = b.archive.HostTools(ctx); err != nil {
		return err
	}
	if artifacts.Busybox, err = b.archive.Busybox(ctx); err != nil {
		return err
	}
	if artifacts.Applets, err = image.Applets(ctx, artifacts.Busybox); err != nil {
		return err
	}
	artifacts.QEMU, err = b.archive.QEMU(ctx)
	return err
}

// packPerftest packs the image of perftest.
func (b *ArtifactBuilder) packPerftest(artifacts *Artifacts) error {
	tools, err := node.RDMATools(artifacts.RDMATools)
	if err != nil {
		return err
	}
	files := map[string]string{}
	for inside, f := range tools {
		files[inside] = f.Source
	}
	archive := b.cache.Path("perftest.tar")
	artifacts.Images = append(artifacts.Images, archive)
	return ociimage.WriteDocker(archive, image.PerftestImage(artifacts.Busybox, artifacts.Applets, files))
}

// ErrNoRDMA says that the parts of GuestRDMA cannot be had here.
var ErrNoRDMA = errors.New("no guest with RDMA in namespaces")

// fetchRDMA fetches what GuestRDMA has of its own.
func (b *ArtifactBuilder) fetchRDMA(ctx context.Context, kind string, artifacts *Artifacts) (err error) {
	if kind != GuestRDMA {
		return nil
	}
	if artifacts.Kernel, artifacts.Modules, err = b.archive.RDMAKernel(ctx); err == nil {
		artifacts.QEMU, err = b.archive.RDMAQEMU(ctx)
	}
	if err == nil {
		artifacts.RDMATools, err = b.archive.RDMATools(ctx)
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrNoRDMA, err)
	}
	return err
}

// Program is the path of one of plumbline's own programs, as last built.
func (b *ArtifactBuilder) Program(name string) (string, error) {
	path := b.cache.Path("bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return path, nil
}

func (b *ArtifactBuilder) build(ctx context.Context, v build.Versions, artifacts *Artifacts, seccomp <-chan string) (err error) {
	if artifacts.Hyperkube, err = b.builder.Hyperkube(ctx, v); err != nil {
		return err
	}
	if artifacts.Containerd, err = b.builder.Containerd(ctx, v); err != nil {
		return err
	}
	if artifacts.CNI, err = b.builder.CNI(ctx); err != nil {
		return err
	}
	if artifacts.Helm, err = b.builder.Helm(ctx); err != nil {
		return err
	}
	if artifacts.GuestInit, err = b.builder.GuestInit(ctx); err != nil {
		return err
	}
	root, fetched := <-seccomp
	if !fetched {
		// The other half failed, and tells why.
		return nil
	}
	artifacts.Runc, err = b.builder.Runc(ctx, root)
	return err
}

// pack makes the archives of images: the lab's own, and plumbline's, which changes with
// every edit and is of the form that users import.
func (b *ArtifactBuilder) pack(ctx context.Context, artifacts *Artifacts) error {
	installation, err := b.builder.Plumbline(ctx, image.Architecture, image.Plumbline)
	if err != nil {
		return err
	}
	own := b.cache.Path("images.tar")
	artifacts.Chart, artifacts.Images = installation.Chart, []string{own, installation.Image}
	return ociimage.WriteDocker(own, image.BusyboxImages(artifacts.Busybox, artifacts.Applets))
}

// NICDriver packs an image that loads the guest's own module of that name, and what it
// needs, into an archive.
func (b *ArtifactBuilder) NICDriver(ctx context.Context, module string) (archive string, err error) {
	busybox, err := b.archive.Busybox(ctx)
	if err != nil {
		return "", err
	}
	applets, err := image.Applets(ctx, busybox)
	if err != nil {
		return "", err
	}
	_, folder, err := b.archive.Kernel(ctx)
	if err != nil {
		return "", err
	}
	known, err := initramfs.OpenModules(folder)
	if err != nil {
		return "", err
	}
	modules, err := known.Load(module)
	if err != nil {
		return "", err
	}
	archive = b.cache.Path("nic-driver.tar")
	return archive, ociimage.WriteDocker(archive, image.NICDriverImage(busybox, applets, modules))
}

// DRANET makes what plumbline is measured beside: an archive with its image, and
// the program that looks at links as it does.
func (b *ArtifactBuilder) DRANET(ctx context.Context) (archive, scan string, err error) {
	dir, err := b.builder.DRANET(ctx)
	if err != nil {
		return "", "", err
	}
	archive = b.cache.Path("dranet.tar")
	return archive, filepath.Join(dir, "dranet-scan"), ociimage.WriteDocker(archive, image.DRANETImage(filepath.Join(dir, "dranet")))
}

// NVIDIADevicePlugin packs NVIDIA's device plugin, which no other cluster is given, into an
// archive.
func (b *ArtifactBuilder) NVIDIADevicePlugin(ctx context.Context) (archive string, err error) {
	program, err := b.builder.NVIDIADevicePlugin(ctx)
	if err != nil {
		return "", err
	}
	libraries, err := b.archive.HostTools(ctx)
	if err != nil {
		return "", err
	}
	archive = b.cache.Path("nvidia-device-plugin.tar")
	return archive, ociimage.WriteDocker(archive, image.NVIDIADevicePluginImage(program, libraries))
}
