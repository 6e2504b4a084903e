// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kmsg

import (
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// maxRecord is longer than any record that a read of the device returns: the kernel
// refuses a read with less room than the record needs (EINVAL).
const maxRecord = 16 << 10

// device is an open /dev/kmsg.
type device struct {
	name string
	fd   int
	room []byte
	// rest is what of the last record nobody has read yet.
	rest []byte
}

// Open opens the log. Reading begins at the oldest record that the kernel still has, and
// ends (io.EOF) after the newest: it waits for none.
func Open(name string) (io.ReadCloser, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &device{name: name, fd: fd, room: make([]byte, maxRecord)}, nil
}

// Read implements io.Reader.
func (d *device) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		n, err := unix.Read(d.fd, d.room)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return 0, io.EOF
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EPIPE):
			continue // EPIPE: the next record has been overwritten, and the one after it comes
		case err != nil:
			return 0, &fs.PathError{Op: "read", Path: d.name, Err: err}
		case n == 0:
			return 0, io.EOF
		}
		d.rest = d.room[:n]
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (d *device) Close() error { return unix.Close(d.fd) }
