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

// networkTools are the commands that tests and scenarios call.
var networkTools = []string{"ip", "tc", "bridge", "rdma", "ethtool"}

// NetworkTools are iproute2 and ethtool as unpacked below root, where the guest
// finds them before busybox's, and what they are linked against.
func NetworkTools(root string) (initramfs.Files, error) {
	files := initramfs.Files{}
	for _, name := range networkTools {
		source, err := find(root, name)
		if err != nil {
			return nil, err
		}
		files[path.Join("/usr/local/sbin", name)] = initramfs.File{Source: source, Mode: 0o755}
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
