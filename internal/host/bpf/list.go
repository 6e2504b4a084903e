// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/pin"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Kind is how a program is attached.
type Kind string

// The kinds: a filter of clsact, or a place of its own since Linux 6.6.
const (
	TC  Kind = "tc"
	TCX Kind = "tcx"
)

// Attachment is a program on a link.
type Attachment struct {
	Kind Kind `json:"kind"`
	// Direction is rtnl.Ingress or rtnl.Egress.
	Direction string `json:"direction"`
	// Program is the id, until the program ends. ProgramName and Tag, a hash of
	// its instructions, are for people.
	Program     uint32 `json:"program"`
	ProgramName string `json:"programName,omitempty"`
	Tag         string `json:"tag,omitempty"`
	// Link is the id of the BPF link that holds a tcx program there; 0 for none.
	Link uint32 `json:"link,omitempty"`
	// Pins are the paths below a bpffs at which the program or its BPF link is
	// pinned, sorted.
	Pins []string `json:"pins,omitempty"`
	// Filter is that of a tc program.
	Filter *rtnl.Filter `json:"filter,omitempty"`
	// Held is the name under which a Store holds the program; empty before.
	Held string `json:"held,omitempty"`
}

// String names the program and its place.
func (a Attachment) String() string {
	text := fmt.Sprintf("%s %s program %d", a.Kind, a.Direction, a.Program)
	if a.ProgramName != "" {
		text += fmt.Sprintf(" (%s)", a.ProgramName)
	}
	return text
}

// same tells whether two are the same attachment, also where one is from before a
// restore, which changes ids.
func (a Attachment) same(b Attachment) bool {
	place := a.Filter == nil && b.Filter == nil ||
		a.Filter != nil && b.Filter != nil && a.Filter.Priority == b.Filter.Priority && a.Filter.Handle == b.Filter.Handle &&
			a.Filter.Chain == b.Filter.Chain
	return a.Kind == b.Kind && a.Direction == b.Direction && a.Program == b.Program && place
}

var attachTypes = map[string]ebpf.AttachType{rtnl.Ingress: ebpf.AttachTCXIngress, rtnl.Egress: ebpf.AttachTCXEgress}

// List finds the programs on a link, tcx before tc, in the order in which they
// run. Conn is a connection to the same namespace. Bpffs is where pins are
// looked for; empty leaves them out.
func List(namespace int, conn *rtnl.Conn, index int, bpffs string) ([]Attachment, error) {
	list, err := attached(namespace, conn, index)
	if err == nil && bpffs != "" && len(list) > 0 {
		err = findPins(list, bpffs)
	}
	if err != nil {
		return nil, fmt.Errorf("list eBPF programs of link %d: %w", index, err)
	}
	return list, nil
}

func attached(namespace int, conn *rtnl.Conn, index int) ([]Attachment, error) {
	queueing, err := conn.Queueing(index)
	if err != nil {
		return nil, err
	}
	lists, failed := ListMany(namespace, map[int]rtnl.Queueing{index: queueing})
	return lists[index], failed[index]
}

// ListMany finds the programs on several links, by their ifindexes, whose queueing
// disciplines were read before. It is List without pins, with an error for each
// link that could not be read.
func ListMany(namespace int, queueings map[int]rtnl.Queueing) (lists map[int][]Attachment, failed map[int]error) {
	lists, failed = make(map[int][]Attachment, len(queueings)), map[int]error{}
	err := netns.Do(namespace, func() error {
		for index := range queueings {
			list, err := allTCX(index)
			if err != nil {
				failed[index] = err
			}
			lists[index] = list
		}
		return nil
	})
	for index, queueing := range queueings {
		if err != nil {
			failed[index] = err
		}
		if failed[index] != nil {
			delete(lists, index)
			continue
		}
		for _, f := range queueing.Filters {
			if f.Program != 0 && f.Direction != "" {
				lists[index] = append(lists[index], Attachment{Kind: TC, Direction: f.Direction, Program: f.Program, Filter: &f})
			}
		}
		for i := range lists[index] {
			if err := lists[index][i].describe(); err != nil {
				failed[index] = err
			}
		}
	}
	return lists, failed
}

// allTCX lists the tcx programs of a link in the calling thread's namespace.
func allTCX(index int) ([]Attachment, error) {
	var list []Attachment
	for _, direction := range []string{rtnl.Ingress, rtnl.Egress} {
		some, err := queryTCX(index, direction)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

func queryTCX(index int, direction string) ([]Attachment, error) {
	result, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: attachTypes[direction]})
	// A kernel without tcx calls the attach type invalid.
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Attachment
	for _, p := range result.Programs {
		a := Attachment{Kind: TCX, Direction: direction, Program: uint32(p.ID)}
		if id, ok := p.LinkID(); ok {
			a.Link = uint32(id)
		}
		list = append(list, a)
	}
	return list, nil
}

// describe adds what BPF_OBJ_GET_INFO_BY_FD tells of the program.
func (a *Attachment) describe() error {
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(a.Program))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone meanwhile
	}
	if err != nil {
		return err
	}
	defer closeQuietly(p)
	info, err := p.Info()
	if err != nil {
		return err
	}
	a.ProgramName, a.Tag = info.Name, info.Tag
	return nil
}

// findPins opens each pin below a bpffs; what cannot be opened is no program's.
func findPins(list []Attachment, bpffs string) error {
	return fs.WalkDir(os.DirFS(bpffs), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil && name == ".":
			return fmt.Errorf("look for pins in %s: %w", bpffs, err)
		case err != nil || e.IsDir():
			return nil // removed since
		}
		path := filepath.Join(bpffs, name)
		object, err := pin.Load(path, nil)
		if err != nil {
			return nil
		}
		defer object.Close()
		for i := range list {
			if list[i].isPinned(object) {
				list[i].Pins = append(list[i].Pins, path) // a walk is in order
			}
		}
		return nil
	})
}

// isPinned tells whether a pinned object is the attachment's program or link.
func (a Attachment) isPinned(object pin.Pinner) bool {
	switch o := object.(type) {
	case *ebpf.Program:
		info, err := o.Info()
		if err != nil {
			return false
		}
		id, ok := info.ID()
		return ok && uint32(id) == a.Program
	case link.Link:
		info, err := o.Info()
		return err == nil && a.Link != 0 && uint32(info.ID) == a.Link
	}
	return false
}
