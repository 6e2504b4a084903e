// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
)

// Dir is Linux's alone.
type Dir struct {
	files
}

type files interface {
	fs.ReadLinkFS
	fs.ReadDirFS
}

// Open says that there is no sysfs here.
func Open(name string) (*Dir, error) {
	return nil, fmt.Errorf("open %s: plumbline reads hosts on Linux only: %w", name, errors.ErrUnsupported)
}

// Close has nothing to close.
func (*Dir) Close() error { return nil }

// ReadAttribute has nothing to read.
func (*Dir) ReadAttribute(string, []byte) (int, error) { return 0, errors.ErrUnsupported }
