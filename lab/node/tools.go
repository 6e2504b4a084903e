// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"plumbline.dev/plumbline/lab/vm/initramfs"
)

// hostTools are the commands that tests, scenarios and plumbline call, by the program
// that they are: those of kmod go by the name that they are called by.
var hostTools = map[string]string{
	"/usr/local/sbin/ip": "ip", "/usr/local/sbin/tc": "tc", "/usr/local/sbin/bridge": "bridge", "/usr/local/sbin/rdma": "rdma",
	"/usr/local/sbin/ethtool": "ethtool", "/usr/sbin/modprobe": "kmod", "/usr/sbin/depmod": "kmod",
}

// rdmaTools are perftest's commands that tests and scenarios call, and one that says
// what verbs find.
var rdmaTools = map[string]string{
	"/usr/bin/ib_write_lat": "ib_write_lat", "/usr/bin/ib_write_bw": "ib_write_bw", "/usr/bin/ibv_devinfo": "ibv_devinfo",
}

// HostTools are iproute2, ethtool and kmod as unpacked below root, where the guest
// finds them before busybox's, and what they are linked against.
func HostTools(root string) (initramfs.Files, error) { return unpacked(root, hostTools) }

// RDMATools are perftest and the verbs library with soft RoCE's driver, which it looks
// for at the path that it was built with, where a file in /etc names it.
func RDMATools(root string) (initramfs.Files, error) {
	files, err := unpacked(root, rdmaTools)
	if err != nil {
		return nil, err
	}
	drivers, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu/libibverbs/librxe-*.so"))
	if err == nil && len(drivers) == 0 {
		err = fmt.Errorf("find the verbs driver of soft RoCE in the packages unpacked at %s: not there", root)
	}
	for _, driver := range drivers {
		files[strings.TrimPrefix(driver, root)] = initramfs.File{Source: driver, Mode: 0o755}
	}
	files["/etc/libibverbs.d/rxe.driver"] = initramfs.File{Source: filepath.Join(root, "etc/libibverbs.d/rxe.driver")}
	return files, err
}

// unpacked are programs below root, by the file that each is to become, and the
// libraries there.
func unpacked(root string, programs map[string]string) (initramfs.Files, error) {
	files := initramfs.Files{}
	for file, program := range programs {
		source, err := find(root, program)
		if err != nil {
			return nil, err
		}
		files[file] = initramfs.File{Source: source, Mode: 0o755}
	}
	for _, pattern := range []string{"lib64/*", "usr/lib64/*", "lib/*-linux-gnu/*.so*", "usr/lib/*-linux-gnu/*.so*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, library := range found {
			// A link's target becomes a file of the link's own name: fewer
			// than a dozen libraries, and no folder is missed.
			source, err := filepath.EvalSymlinks(library)
			if err != nil {
				return nil, fmt.Errorf("find library: %w", err)
			}
			guestPath, ok := libraryPath(root, library)
			if ok {
				files[guestPath] = initramfs.File{Source: source, Mode: 0o755}
			}
		}
	}
	return files, nil
}

// libraryPath is where the guest's loader looks for a library: /lib64 for
// itself, /lib/ARCH for the others, on merged and unmerged releases.
func libraryPath(root, library string) (string, bool) {
	info, err := os.Stat(library)
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	below := strings.TrimPrefix(strings.TrimPrefix(library, root), "/usr")
	return path.Clean(filepath.ToSlash(below)), true
}

func find(root, program string) (string, error) {
	var errs []error
	for _, dir := range []string{"bin", "sbin", "usr/bin", "usr/sbin"} {
		name := filepath.Join(root, dir, program)
		info, err := os.Lstat(name)
		if err == nil && info.Mode().IsRegular() {
			return name, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("find %s in the packages unpacked at %s: %w", program, root, errors.Join(errs...))
}
