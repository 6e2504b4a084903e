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

// HostTools are iproute2, ethtool and kmod as unpacked below root, where the guest
// finds them before busybox's, and what they are linked against.
func HostTools(root string) (initramfs.Files, error) {
	files := initramfs.Files{}
	for file, program := range hostTools {
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
