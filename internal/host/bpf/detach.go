// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Detach detaches the listed programs from a link, pinned or not: a pin holds the
// program, not its attachment. One that is gone already is no error, and others are
// left alone.
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

// DetachOthers detaches the tcx programs that are not listed from a link: they would
// move with it to another namespace, which tc filters do not.
func DetachOthers(namespace, index int, keep []Attachment) error {
	err := netns.Do(namespace, func() error {
		var errs []error
		for _, direction := range []string{rtnl.Ingress, rtnl.Egress} {
			now, err := queryTCX(index, direction)
			errs = append(errs, err)
			for _, a := range now {
				if !slices.ContainsFunc(keep, a.same) {
					errs = append(errs, a.detachTCX(index))
				}
			}
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return fmt.Errorf("take others' eBPF programs off link %d: %w", index, err)
	}
	return nil
}

func (a Attachment) detach(namespace int, conn *rtnl.Conn, index int) error {
	if a.Kind == TC {
		return conn.DeleteFilter(index, *a.Filter)
	}
	return netns.Do(namespace, func() error { return a.detachTCX(index) })
}

// detachTCX runs in the link's namespace. A program that is gone is no error.
func (a Attachment) detachTCX(index int) error {
	err := a.endTCX(index)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOLINK) {
		return nil
	}
	return err
}

func (a Attachment) endTCX(index int) error {
	if a.Link != 0 {
		return detachLink(link.ID(a.Link))
	}
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(a.Program))
	if err != nil {
		return err
	}
	defer closeQuietly(p)
	return link.RawDetachProgram(link.RawDetachProgramOptions{Target: index, Program: p, Attach: attachTypes[a.Direction]})
}

// detachLink ends a BPF link's attachment for all who hold it.
func detachLink(id link.ID) error {
	l, err := link.NewFromID(id)
	if err != nil {
		return err
	}
	defer closeQuietly(l)
	return l.Detach()
}
