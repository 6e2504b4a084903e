// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// maxAttribute is the most bytes read of one attribute: sysfs hands out one
// page (Documentation/filesystems/sysfs.rst).
const maxAttribute = 4096

// errNoValue says that an attribute exists and has no value at present, in whichever
// way the kernel shows that.
var errNoValue = errors.New("has no value")

// attributeReader is a file system that reads a small file in fewer steps than
// Open, Read and Close. It fills buf and returns how much of it.
type attributeReader interface {
	ReadAttribute(name string, buf []byte) (int, error)
}

// reader reads attributes of one tree and collects what goes wrong.
type reader struct {
	sys      fs.FS
	fast     attributeReader
	buf      [maxAttribute + 1]byte
	problems []Problem
}

func newReader(sys fs.FS) *reader {
	fast, _ := sys.(attributeReader)
	return &reader{sys: sys, fast: fast}
}

func (r *reader) problem(name string, err error) {
	r.problems = append(r.problems, Problem{Path: name, Err: err})
}

// text reads one attribute without its line end. Absent, gone and empty are
// nil; what can not be read is nil and a problem.
func (r *reader) text(name string) *string {
	s, err := r.read(name)
	switch {
	case err == nil && s != "":
		return &s
	case err == nil, isAbsent(err):
		return nil
	}
	r.problem(name, err)
	return nil
}

// parsed reads one attribute and hands it to parse, which returns errNoValue
// for the kernel's words for unknown.
func parsed[T any](r *reader, name string, parse func(string) (T, error)) *T {
	s := r.text(name)
	if s == nil {
		return nil
	}
	v, err := parse(*s)
	if errors.Is(err, errNoValue) {
		return nil
	}
	if err != nil {
		r.problem(name, err)
		return nil
	}
	return &v
}

// required is parsed for an attribute without which the device is no use.
func required[T any](r *reader, name string, parse func(string) (T, error)) (T, error) {
	var zero T
	s, err := r.read(name)
	if err == nil {
		var v T
		if v, err = parse(s); err == nil {
			return v, nil
		}
	}
	return zero, fmt.Errorf("%s: %w", path.Base(name), plain(err))
}

// read returns the attribute's text, bounded and valid UTF-8.
func (r *reader) read(name string) (string, error) {
	n, err := r.fill(name)
	if err != nil {
		return "", plain(err)
	}
	if n > maxAttribute {
		return "", fmt.Errorf("is longer than the %d bytes an attribute can have", maxAttribute)
	}
	text := r.buf[:n]
	if !utf8.Valid(text) {
		return "", errors.New("is not UTF-8")
	}
	return strings.TrimSpace(string(text)), nil
}

func (r *reader) fill(name string) (int, error) {
	if r.fast != nil {
		return r.fast.ReadAttribute(name, r.buf[:])
	}
	return readFile(r.sys, name, r.buf[:])
}

// readFile reads a file into buf and returns how many bytes it has, at most
// len(buf).
func readFile(sys fs.FS, name string, buf []byte) (int, error) {
	f, err := sys.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	n, err := io.ReadFull(f, buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return n, err
}

// isAbsent says whether an error means that there is no value: the file or its device
// is gone, or the driver has none (EINVAL for the speed of a link that is down,
// EOPNOTSUPP for a port name, net/core/net-sysfs.c).
func isAbsent(err error) bool {
	for _, e := range []error{
		fs.ErrNotExist, syscall.ENODEV, syscall.ENXIO, syscall.EINVAL, syscall.EOPNOTSUPP, syscall.ENOTDIR,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// plain removes the path from an fs.PathError: a Problem names it already.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// list names the entries of a directory; an absent directory has none.
func (r *reader) list(dir string) []fs.DirEntry {
	entries, err := fs.ReadDir(r.sys, dir)
	if err != nil && !isAbsent(err) {
		r.problem(dir, plain(err))
	}
	usable := entries[:0]
	for _, e := range entries {
		if !isText(e.Name()) {
			r.problem(dir, fmt.Errorf("left out entry %q: its name is no plain text", e.Name()))
			continue
		}
		usable = append(usable, e)
	}
	return usable
}

// link reads a symbolic link and returns where it leads, below /sys.
func (r *reader) link(name string) (string, error) {
	target, err := fs.ReadLink(r.sys, name)
	if err != nil {
		return "", plain(err)
	}
	if !isText(target) {
		return "", fmt.Errorf("link leads to %q, which is no plain text", target)
	}
	if path.IsAbs(target) {
		return "", fmt.Errorf("link leads to %q, want a relative path", target)
	}
	resolved := path.Join(path.Dir(name), target)
	if !fs.ValidPath(resolved) || resolved == "." {
		return "", fmt.Errorf("link leads to %q, outside of the tree", target)
	}
	return resolved, nil
}

// linkBase is the last element of where a link leads, as driver/ and physfn
// are read; nil when there is no such link.
func (r *reader) linkBase(name string) *string {
	target, err := r.link(name)
	if err != nil {
		if !isAbsent(err) {
			r.problem(name, err)
		}
		return nil
	}
	base := path.Base(target)
	return &base
}

// isText says whether a name fits on a line and into an API object.
func isText(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// Problem is one thing below /sys that could not be used, and why.
type Problem struct {
	// Path is the file or directory below /sys.
	Path string
	// Err says what is wrong with it.
	Err error
}

// String is one line for a log or a person.
func (p Problem) String() string { return fmt.Sprintf("%s: %v", p.Path, p.Err) }
