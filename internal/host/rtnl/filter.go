// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes of the bpf classifier (include/uapi/linux/pkt_cls.h).
const (
	tcaBPFAct      = 1
	tcaBPFPolice   = 2
	tcaBPFFD       = 6
	tcaBPFName     = 7
	tcaBPFFlags    = 8
	tcaBPFFlagsGen = 9
	tcaBPFTag      = 10
	tcaBPFID       = 11

	directAction = 1 // TCA_BPF_FLAG_ACT_DIRECT
	// settableFlags are TCA_CLS_FLAGS_SKIP_HW, _SKIP_SW and _VERBOSE; the others
	// report whether a filter is offloaded.
	settableFlags = 1 | 2 | 16
)

// Directions of a filter.
const (
	Ingress = "ingress"
	Egress  = "egress"
)

// Filter is a filter of a queueing discipline.
type Filter struct {
	Saved
	// Kind is such as bpf or flower.
	Kind string `json:"kind"`
	// Direction is Ingress or Egress for clsact's, empty for those of the root.
	Direction string `json:"direction,omitempty"`
	// Chain, Priority and Handle are the filter's place, Protocol the Ethernet
	// protocol it is for.
	Chain    uint32 `json:"chain,omitempty"`
	Priority uint16 `json:"priority"`
	Protocol uint16 `json:"protocol"`
	Handle   uint32 `json:"handle"`
	// Program is the id of the BPF program, 0 for none. Name is TCA_BPF_NAME.
	Program uint32 `json:"program,omitempty"`
	Name    string `json:"name,omitempty"`
	// DirectAction is true when the program's return value is the verdict on a
	// packet.
	DirectAction bool `json:"directAction,omitempty"`
	// Actions is true when further actions hang on the filter.
	Actions bool `json:"actions,omitempty"`
}

// restorable tells whether the filter can be restored with its program.
func (f Filter) restorable() bool {
	return f.Kind == "bpf" && f.Direction != "" && f.Program != 0 && !f.Actions
}

// filters lists the filters of a link's root and of clsact.
func (c *Conn) filters(index int, q Queueing) ([]Filter, error) {
	var parents []uint32
	if q.Root != nil && q.Root.Handle != 0 {
		parents = append(parents, q.Root.Handle)
	}
	switch {
	case q.Ingress == nil:
	case q.Ingress.Kind == "clsact":
		parents = append(parents, clsactIngress, clsactEgress)
	default:
		parents = append(parents, q.Ingress.Handle)
	}
	var list []Filter
	for _, parent := range parents {
		messages, err := c.dump(unix.RTM_GETTFILTER, unix.RTM_NEWTFILTER, nil, tcHeader(index, 0, parent))
		if err != nil {
			return nil, err
		}
		for _, body := range messages {
			f, whole, err := parseFilter(body)
			if err != nil {
				return nil, err
			}
			if whole {
				list = append(list, f)
			}
		}
	}
	return list, nil
}

// parseFilter reads a body. A message without a handle, for which whole is false, only
// announces the filters of one priority.
func parseFilter(body []byte) (f Filter, whole bool, err error) {
	m, err := parseMessage(body, tcBytes)
	if err != nil {
		return Filter{}, false, err
	}
	// struct tcmsg, whose last field is the priority and the protocol.
	info := binary.NativeEndian.Uint32(m.header[16:20])
	f = Filter{
		Kind:      unix.ByteSliceToString(m.get(tcaKind)),
		Direction: direction(binary.NativeEndian.Uint32(m.header[12:16])),
		Handle:    binary.NativeEndian.Uint32(m.header[8:12]),
		Priority:  uint16(info >> 16),
		Protocol:  swap16(uint16(info)),
	}
	f.Chain, _ = m.number(tcaChain)
	if f.Kind == "bpf" {
		if err := f.takeBPF(m.get(tcaOptions)); err != nil {
			return Filter{}, false, err
		}
	}
	clear(m.header[4:8])
	f.Message = m.without(tcaStats, tcaXstats, tcaStats2)
	f.Text = fmt.Sprintf("%s %s pref %d handle %#x", f.Direction, f.Kind, f.Priority, f.Handle)
	if f.Program != 0 {
		f.Text += fmt.Sprintf(" program %d", f.Program)
	}
	return f, f.Handle != 0, nil
}

func direction(parent uint32) string {
	switch parent {
	case clsactIngress, tcIngress & 0xffff0000:
		return Ingress
	case clsactEgress:
		return Egress
	}
	return ""
}

// swap16 turns the network's byte order into the machine's.
func swap16(v uint16) uint16 {
	return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, v))
}

func (f *Filter) takeBPF(options []byte) error {
	return EachAttribute(options, func(kind uint16, value []byte) error {
		n := number(value)
		switch {
		case kind == tcaBPFAct || kind == tcaBPFPolice:
			f.Actions = true
		case kind == tcaBPFName:
			f.Name = unix.ByteSliceToString(value)
		case kind == tcaBPFID && n != nil:
			f.Program = *n
		case kind == tcaBPFFlags && n != nil:
			f.DirectAction = *n&directAction != 0
		}
		return nil
	})
}

// DeleteFilter deletes a filter. It is no error when it is gone.
func (c *Conn) DeleteFilter(index int, f Filter) error {
	m, err := parseMessage(f.Message, tcBytes)
	if err == nil {
		binary.NativeEndian.PutUint32(m.header[4:8], uint32(index))
		err = c.change(unix.RTM_DELTFILTER, 0, raw(m.without(tcaOptions)))
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("delete filter %s of link %d: %w", f.Text, index, err)
	}
	return nil
}

// RestoreFilter puts a bpf filter of clsact back, with its program open as a
// descriptor. It is no error when there is one in that place.
func (c *Conn) RestoreFilter(index int, f Filter, program int) error {
	err := c.restoreFilter(index, f, program)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("restore filter %s of link %d: %w", f.Text, index, err)
	}
	return nil
}

func (c *Conn) restoreFilter(index int, f Filter, program int) error {
	m, err := parseMessage(f.Message, tcBytes)
	if err != nil {
		return err
	}
	binary.NativeEndian.PutUint32(m.header[4:8], uint32(index))
	options := nl.NewRtAttr(tcaOptions, nil)
	options.AddRtAttr(tcaBPFFD, nl.Uint32Attr(uint32(program)))
	err = EachAttribute(m.get(tcaOptions), func(kind uint16, value []byte) error {
		switch kind {
		case tcaBPFID, tcaBPFTag, tcaBPFFD:
			return nil // the program's
		case tcaBPFFlagsGen:
			n := number(value)
			if n == nil {
				return nil
			}
			value = nl.Uint32Attr(*n & settableFlags)
		}
		options.AddRtAttr(int(kind), value)
		return nil
	})
	if err != nil {
		return err
	}
	return c.change(unix.RTM_NEWTFILTER, unix.NLM_F_CREATE|unix.NLM_F_EXCL, raw(m.without(tcaOptions)), options)
}
