// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// Kernel returns the kernel image a guest boots and the folder of its
// modules.
func (a *Archive) Kernel(ctx context.Context) (image, modules string, err error) {
	root, err := a.Fetch(ctx, Set{
		Name: "kernel", Title: "guest kernel", Alone: true,
		Packages: []string{"linux-image-amd64"},
	})
	if err != nil {
		return "", "", err
	}
	image, imageErr := match(root, "boot/vmlinuz-*")
	modules, modulesErr := match(root, "lib/modules/*", "usr/lib/modules/*")
	return image, modules, errors.Join(imageErr, modulesErr)
}

// namespacedRDMA is the first Linux whose soft RoCE carries traffic in a network
// namespace other than the first one.
const namespacedRDMA = "7.1"

// RDMAKernel is Kernel with a newer one, whose soft RoCE works in network namespaces.
func (a *Archive) RDMAKernel(ctx context.Context) (image, modules string, err error) {
	root, err := a.Fetch(ctx, Set{
		Name: "kernel-rdma", Title: "guest kernel with RDMA in namespaces", Alone: true,
		Packages: []string{"linux-binary", "linux-modules", "linux-base"}, Newer: true, Kernel: namespacedRDMA,
	})
	if err != nil {
		return "", "", err
	}
	modules, err = match(root, "usr/lib/modules/*")
	return filepath.Join(modules, "vmlinuz"), modules, err
}

// RDMATools returns a folder with perftest and the libraries it is linked against,
// unpacked.
func (a *Archive) RDMATools(ctx context.Context) (string, error) {
	return a.Fetch(ctx, Set{
		Name: "rdma-tools", Title: "perftest (unpacked)",
		Packages: []string{"perftest", "ibverbs-providers", "ibverbs-utils"},
	})
}

// Busybox returns a static busybox.
func (a *Archive) Busybox(ctx context.Context) (string, error) {
	root, err := a.Fetch(ctx, Set{
		Name: "busybox", Title: "busybox", Alone: true,
		Packages: []string{"busybox-static"},
	})
	if err != nil {
		return "", err
	}
	return match(root, "bin/busybox", "usr/bin/busybox")
}

// NVIDIATools returns a static bash, which the image of NVIDIA's DRA driver has, and
// ldconfig, which its hooks run on the host.
func (a *Archive) NVIDIATools(ctx context.Context) (bash, ldconfig string, err error) {
	root, err := a.Fetch(ctx, Set{
		Name: "nvidia-tools", Title: "bash and ldconfig (unpacked)", Alone: true,
		Packages: []string{"bash-static", "libc-bin"},
	})
	if err != nil {
		return "", "", err
	}
	bash, bashErr := match(root, "bin/bash-static", "usr/bin/bash-static")
	ldconfig, ldconfigErr := match(root, "sbin/ldconfig", "usr/sbin/ldconfig")
	return bash, ldconfig, errors.Join(bashErr, ldconfigErr)
}

// match returns the first path below root that fits one of the patterns:
// places vary by release.
func match(root string, patterns ...string) (string, error) {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("look for %s in the packages unpacked at %s: not there; remove that folder to fetch them again", patterns[0], root)
}

// HostTools returns a folder with iproute2, ethtool and kmod and the libraries
// they are linked against, unpacked: busybox knows neither namespaces by path
// nor most kinds of link, and a host's modprobe is kmod's.
func (a *Archive) HostTools(ctx context.Context) (string, error) {
	return a.Fetch(ctx, Set{
		Name: "host-tools", Title: "iproute2, ethtool and kmod (unpacked)",
		Packages: []string{"iproute2", "ethtool", "kmod"},
	})
}
