// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// oneMount shows a directory of a container as an fs.FS that no path leads out of, nor
// to another mount: what a pod has mounted below may be anything.
type oneMount struct{ dir *os.File }

// Open implements fs.FS.
func (m oneMount) Open(name string) (fs.File, error) {
	fd, err := m.open("open", name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (m oneMount) open(op, name string, flags int) (int, error) {
	if !fs.ValidPath(name) {
		return -1, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	fd, err := open(m.dir, name, flags, beneathMount)
	if err != nil {
		return -1, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return fd, nil
}

// ReadAttribute reads a file into buf, as sysfs.Dir does: a table of GIDs has hundreds.
func (m oneMount) ReadAttribute(name string, buf []byte) (int, error) {
	fd, err := m.open("open", name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	n, err := unix.Read(fd, buf)
	if err != nil {
		return 0, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return n, nil
}

// ReadLink implements fs.ReadLinkFS.
func (m oneMount) ReadLink(name string) (string, error) {
	f, err := m.itself("readlink", name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	target, err := readLink(f, "")
	if errors.Is(err, unix.ENOENT) {
		err = unix.EINVAL // as readlink(2) of a file that is no link
	}
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return target, nil
}

// Lstat implements fs.ReadLinkFS.
func (m oneMount) Lstat(name string) (fs.FileInfo, error) {
	f, err := m.itself("lstat", name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// itself opens a file or link itself, for what it is.
func (m oneMount) itself(op, name string) (*os.File, error) {
	fd, err := m.open(op, name, linkItself)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
