// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"plumbline.dev/plumbline/internal/host/dcb"
)

// Paths say where an agent has parts of its host's file system.
type Paths struct {
	// Sys and Proc are the host's /sys and /proc, NRI its /run/nri.
	Sys, Proc, NRI string
	// DCB asks the driver of one of the host's interfaces; nil where nobody is to be asked.
	DCB func(interfaceName string) (dcb.Settings, error)
}

var errDenied = errors.New("the agent may not read it; plumbline doctor, run on the host by root, may")

// hostFiles is the host's file system. What is not mounted into the agent's container is
// read through the root directory of the host's first process, which takes SYS_PTRACE
// and the host's /proc: an agent that verifies pods has both. Without them nobody can
// tell what is in /dev, /boot and /etc, and the container's own say nothing of the host.
type hostFiles struct {
	mounted map[string]fs.FS
	// root is nil where hidden says why.
	root   *os.Root
	hidden error
}

func openFiles(p Paths) *hostFiles {
	f := &hostFiles{mounted: map[string]fs.FS{"sys": os.DirFS(p.Sys), "proc": os.DirFS(p.Proc), "run/nri": os.DirFS(p.NRI)}}
	f.root, f.hidden = openRoot(p.Proc)
	return f
}

// openRoot opens the host's root directory. Links in it that lead out of it, as absolute
// ones seem to do from here, are not followed.
func openRoot(proc string) (*os.Root, error) {
	self, err := os.Readlink(filepath.Join(proc, "self"))
	if err != nil {
		return nil, fmt.Errorf("the agent does not see the host's processes: %w", err)
	}
	if self == "1" {
		return nil, errors.New("the agent sees its container's processes only: want the host's /proc (--proc-root)")
	}
	root, err := os.OpenRoot(filepath.Join(proc, "1/root"))
	if errors.Is(err, fs.ErrPermission) {
		return nil, errDenied
	}
	return root, err
}

func (f *hostFiles) close() error {
	if f.root == nil {
		return nil
	}
	return f.root.Close()
}

// in is the file system that has a file, and the file's name there.
func (f *hostFiles) in(name string) (fs.FS, string, error) {
	for at, files := range f.mounted {
		if name == at {
			return files, ".", nil
		}
		if rest, ok := strings.CutPrefix(name, at+"/"); ok {
			return files, rest, nil
		}
	}
	if f.root == nil {
		return nil, "", f.hidden
	}
	return f.root.FS(), name, nil
}

// Open implements fs.FS.
func (f *hostFiles) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	files, rest, err := f.in(name)
	if err != nil {
		return nil, err
	}
	file, err := files.Open(rest)
	return file, plain(err)
}

// Stat implements fs.StatFS: a character device must not be opened to see that it is
// there, which the container's device cgroup refuses.
func (f *hostFiles) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	files, rest, err := f.in(name)
	if err != nil {
		return nil, err
	}
	info, err := fs.Stat(files, rest)
	return info, plain(err)
}

// ReadLink implements fs.ReadLinkFS: drivers of devices and open files of processes are links.
func (f *hostFiles) ReadLink(name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	files, rest, err := f.in(name)
	if err != nil {
		return "", err
	}
	target, err := fs.ReadLink(files, rest)
	return target, plain(err)
}

// Lstat implements fs.ReadLinkFS.
func (f *hostFiles) Lstat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrInvalid}
	}
	files, rest, err := f.in(name)
	if err != nil {
		return nil, err
	}
	info, err := fs.Lstat(files, rest)
	return info, plain(err)
}

// plain tells who may read what the agent, root already, may not.
func plain(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return errDenied
	}
	return err
}
