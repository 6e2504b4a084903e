// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/procfs"
)

// answering are file systems that the kernel serves from its own memory, without
// blocking. Any other may depend on a server that a pod has stopped (FUSE, NFS), so
// none is entered.
var answering = []string{"devtmpfs", "ramfs", "sysfs", "tmpfs"}

// inside is a process' own view of the file system.
type inside struct {
	options Options
	pid     int
	root    *os.File
	mounts  procfs.Mounts
}

// enter opens the root directory of a process as it sees it.
func enter(o Options, pid int) (*inside, error) {
	in := &inside{options: o, pid: pid}
	text, err := in.read("mountinfo", maxText)
	if err != nil {
		return nil, err
	}
	if in.mounts, err = procfs.ParseMountInfo(text); err != nil {
		return nil, err
	}
	path := in.file("root")
	fd, err := openPath(path)
	if err != nil {
		return nil, fmt.Errorf("open the container's root directory: %w", err)
	}
	in.root = os.NewFile(uintptr(fd), path)
	return in, nil
}

func (in *inside) close() { _ = in.root.Close() }

// answers says whether nothing is mounted at a path of the container's but what
// answers at once.
func (in *inside) answers(path string) error {
	i := slices.IndexFunc(in.mounts[path], func(kind string) bool { return !slices.Contains(answering, kind) })
	if i >= 0 {
		return fmt.Errorf("%s in the container is not the kernel's: a file system of type %.40s is mounted there", path, in.mounts[path][i])
	}
	return nil
}

// file is the path of a file of the process in /proc.
func (in *inside) file(name string) string {
	return filepath.Join(in.options.Proc, strconv.Itoa(in.pid), name)
}

// maxText and maxEnviron bound what a pod can have one keep.
const (
	maxText    = 1 << 20
	maxEnviron = 64 << 10
)

// read reads a file of the process in /proc.
func (in *inside) read(name string, limit int) ([]byte, error) {
	f, err := os.Open(in.file(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(text) > limit {
		err = fmt.Errorf("%s: longer than %d bytes", name, limit)
	}
	return text, err
}

// openBelow opens a directory below another one.
func openBelow(dir *os.File, name string, resolve uint64) (*os.File, error) {
	fd, err := open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, resolve)
	if err != nil {
		return nil, fmt.Errorf("open %s in the container: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
