// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"errors"
	"fmt"
	"slices"

	"plumbline.dev/plumbline/internal/driver/netdev/side"
	"plumbline.dev/plumbline/internal/host/bpf"
	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysctl"
)

// Host is the host's side, and how to read and change what belongs to a device.
type Host struct {
	*side.Side
	Sysctl  sysctl.Net
	Ethtool *ethtool.Conn
	// Programs keeps eBPF programs that were taken off a NIC.
	Programs bpf.Store
	// BPFFS is where pinned programs are looked for; empty for nowhere.
	BPFFS string
	// Changed is called after each change to the kernel that did not go through
	// the Conn; nil but in tests, which end the process there.
	Changed func()
	// AllowLoss takes NICs although something on them will not come back.
	AllowLoss bool
}

// Step says that the kernel was changed.
func (h *Host) Step() {
	if h.Changed != nil {
		h.Changed()
	}
}

// Read reads what must come back of a NIC that is on the host.
func (h *Host) Read(id side.Identity) (*Seen, error) {
	v, err := look(h.Conn)
	if err != nil {
		return nil, err
	}
	return h.read(v, id)
}

func (h *Host) read(v *view, id side.Identity) (*Seen, error) {
	l, err := id.Find(v.links)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, fmt.Errorf("%s is not in the host's network namespace", id)
	}
	s := &Seen{State: State{
		Name: l.Name, Index: l.Index, PermanentMAC: l.PermanentMAC, Kind: l.Kind, AltNames: l.AltNames,
		Up: l.Up, Settings: l.Settings, XDP: l.XDP,
	}}
	if l.Master != nil {
		if l.SlaveKind == nil || *l.SlaveKind != "vrf" {
			return nil, fmt.Errorf("interface %s is a port of %s, which would lose it", l.Name, linkName(v.links, *l.Master))
		}
		name := linkName(v.links, *l.Master)
		s.State.VRF = &name
	}
	s.readAddresses(v)
	rules, err := h.Rules()
	if err != nil {
		return nil, err
	}
	if s.State.Neighbours, err = h.Neighbours(l.Index); err != nil {
		return nil, err
	}
	if err := s.readRoutes(v); err != nil {
		return nil, err
	}
	s.readRules(rules)
	if s.State.Sysctls, err = h.Sysctl.Snapshot(l.Name); err != nil {
		return nil, fmt.Errorf("interface %s: %w", l.Name, err)
	}
	return s, errors.Join(h.readDevice(s), h.readQueueing(s))
}

// readDevice adds what belongs to the device.
func (h *Host) readDevice(s *Seen) error {
	var err error
	if s.Features, err = h.Ethtool.Features(s.State.Name); err != nil {
		return err
	}
	s.State.Features = ethtool.Snapshot(s.Features)
	if s.State.PrivateFlags, err = h.Ethtool.PrivateFlags(s.State.Name); err != nil {
		return err
	}
	s.State.Programs, err = bpf.List(h.Fd(), h.Conn, s.State.Index, h.BPFFS)
	return err
}

func (h *Host) readQueueing(s *Seen) error {
	q, err := h.Queueing(s.State.Index)
	if err != nil {
		return err
	}
	switch q.Verdict {
	case rtnl.QdiscRestorable:
		s.State.Root, s.State.Ingress = q.Root, q.Ingress
	case rtnl.QdiscLost:
		if !h.AllowLoss {
			return fmt.Errorf("interface %s: %s, which could not be restored: remove that first", s.State.Name, q.Reason)
		}
	}
	return nil
}

// Take is Read of a NIC that is about to leave the host. It refuses one that
// the node needs by now, since the inventory has looked earlier, and one that
// would not come back as it was.
func (h *Host) Take(id side.Identity) (*Seen, error) {
	v, err := look(h.Conn)
	if err != nil {
		return nil, err
	}
	s, err := h.read(v, id)
	if err != nil {
		return nil, err
	}
	return s, errors.Join(refuseNeeded(v, &s.State), h.refuseLost(&s.State), s.State.refuseNames())
}

// Refresh adds routes that came since a state was read: another claim's NIC may
// have been away then, and the routes through both with it.
func (h *Host) Refresh(id side.Identity, s *State) error {
	v, err := look(h.Conn)
	if err != nil {
		return err
	}
	link, err := id.Find(v.links)
	if err != nil || link == nil {
		return err
	}
	now := Seen{State: State{Name: s.Name, Index: link.Index}}
	if err := now.readRoutes(v); err != nil {
		return err
	}
	for _, r := range now.State.Routes {
		if !slices.ContainsFunc(s.Routes, func(o Route) bool { return o.Equal(r.Saved) }) {
			s.Routes = append(s.Routes, r)
		}
	}
	return nil
}
