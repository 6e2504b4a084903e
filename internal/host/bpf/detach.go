// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Detach takes the listed programs off a link, pinned or not: a pin holds the
// program, not its place. What is gone already is no error, and others are left
// alone.
func Detach(namespace int, conn *rtnl.Conn, index int, list []Attachment) error {
	now, err := attached(namespace, conn, index)
	if err != nil {
		return fmt.Errorf("take eBPF programs off link %d: %w", index, err)
	}
	var errs []error
	for _, a := range list {
		for _, b := range now {
			if !a.same(b) {
				continue
			}
			if err := b.detach(namespace, conn, index); err != nil {
				errs = append(errs, fmt.Errorf("take %s off link %d: %w", a, index, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (a Attachment) detach(namespace int, conn *rtnl.Conn, index int) error {
	if a.Kind == TC {
		return conn.DeleteFilter(index, *a.Filter)
	}
	err := netns.Do(namespace, func() error {
		if a.Link != 0 {
			return detachLink(link.ID(a.Link))
		}
		p, err := ebpf.NewProgramFromID(ebpf.ProgramID(a.Program))
		if err != nil {
			return err
		}
		defer letGo(p)
		return link.RawDetachProgram(link.RawDetachProgramOptions{
			Target: index, Program: p, Attach: attachTypes[a.Direction],
		})
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOLINK) {
		return nil
	}
	return err
}

// detachLink ends a BPF link's attachment for all who hold it.
func detachLink(id link.ID) error {
	l, err := link.NewFromID(id)
	if err != nil {
		return err
	}
	defer letGo(l)
	return l.Detach()
}
