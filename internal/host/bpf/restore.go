// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Restore attaches the listed programs that are missing, in their order, and creates
// clsact where their filters need it. It goes on after an error.
func (s Store) Restore(namespace int, conn *rtnl.Conn, index int, list []Attachment) error {
	if len(list) == 0 {
		return nil
	}
	now, err := attached(namespace, conn, index)
	if err != nil {
		return fmt.Errorf("put eBPF programs back on link %d: %w", index, err)
	}
	var errs []error
	before := map[string]ebpf.ProgramID{} // the last tcx program of a direction that is there
	for _, a := range list {
		err := a.finishPin()
		if !slices.ContainsFunc(now, a.same) {
			err = s.restore(namespace, conn, index, a, before[a.Direction])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("put %s back on link %d: %w", a, index, err))
			continue
		}
		if a.Kind == TCX {
			before[a.Direction] = ebpf.ProgramID(a.Program)
		}
	}
	return errors.Join(errs...)
}

func (s Store) restore(namespace int, conn *rtnl.Conn, index int, a Attachment, after ebpf.ProgramID) error {
	p, err := s.open(a)
	if err != nil {
		return err
	}
	defer closeQuietly(p)
	if a.Kind == TC {
		if err := conn.AddClsact(index); err != nil {
			return err
		}
		return conn.RestoreFilter(index, *a.Filter, p.FD())
	}
	anchor := link.Head()
	if after != 0 {
		anchor = link.AfterProgramByID(after)
	}
	return netns.Do(namespace, func() error { return attachTCX(index, a, p, anchor) })
}

// attachTCX attaches by a BPF link where one was pinned, and pins the new one in
// its place. Without a pin a BPF link would end with this process.
func attachTCX(index int, a Attachment, p *ebpf.Program, anchor link.Anchor) error {
	path := a.deadPin()
	if path == "" {
		return link.RawAttachProgram(link.RawAttachProgramOptions{
			Target: index, Program: p, Attach: attachTypes[a.Direction], Anchor: anchor,
		})
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: p, Attach: attachTypes[a.Direction], Anchor: anchor})
	if err != nil {
		return err
	}
	defer closeQuietly(l)
	// A bpffs renames over what is there.
	beside := path + besideSuffix
	if err := l.Pin(beside); err != nil {
		return errors.Join(err, l.Detach())
	}
	if err := os.Rename(beside, path); err != nil {
		return errors.Join(err, os.Remove(beside), l.Detach())
	}
	return nil
}

// besideSuffix ends the name of a pin that takes the place of the one beside it.
const besideSuffix = "-plumbline"

// finishPin completes a restore during which the process was killed: the program is
// attached, and pinned beside its old path.
func (a Attachment) finishPin() error {
	path := a.deadPin()
	if path == "" {
		return nil
	}
	err := os.Rename(path+besideSuffix, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// deadPin is a path at which the attachment's BPF link is pinned, with nothing
// attached any more; empty without one.
func (a Attachment) deadPin() string {
	for _, path := range a.Pins {
		l, err := link.LoadPinnedLink(path, nil)
		if err != nil {
			continue // a program's pin, or gone
		}
		info, err := l.Info()
		dead := err == nil && uint32(info.ID) == a.Link && info.TCX() != nil && info.TCX().Ifindex == 0
		if l.Close() == nil && dead {
			return path
		}
	}
	return ""
}
