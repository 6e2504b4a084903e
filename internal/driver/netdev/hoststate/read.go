// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"errors"
	"fmt"

	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/bpf"
	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysctl"
)

// Host is the host's network namespace, and how to read and change what belongs to a device.
type Host struct {
	*nslink.NetNSConn
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

// Snapshot is the host at one time, from which any number of NICs is read: what lists
// the whole host is listed once.
type Snapshot struct {
	host  *Host
	dumps *dumps
	rules []rtnl.Rule
}

// Snapshot dumps what the host has.
func (h *Host) Snapshot() (*Snapshot, error) {
	v, err := dump(h.Conn)
	if err != nil {
		return nil, err
	}
	rules, err := h.Rules()
	return &Snapshot{host: h, dumps: v, rules: rules}, err
}

// Find returns the link of a NIC, nil when it is not on the host.
func (snap *Snapshot) Find(id nslink.Identity) (*rtnl.Link, error) { return id.Find(snap.dumps.links) }

// Read reads what must come back of a NIC that is on the host.
func (snap *Snapshot) Read(id nslink.Identity) (*Seen, error) {
	h, v := snap.host, snap.dumps
	l, err := snap.Find(id)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, fmt.Errorf("%s is not in the host's network namespace", id)
	}
	s := seenOf(l)
	if err := refusePort(v.links, l); err != nil {
		return nil, err
	}
	if l.Master != nil {
		name := linkName(v.links, *l.Master)
		s.State.VRF = &name
	}
	s.readAddresses(v)
	if s.State.Neighbourhood, err = h.neighbourhood(l.Index, nil); err != nil {
		return nil, err
	}
	if err := s.readRoutes(v); err != nil {
		return nil, err
	}
	s.readRules(snap.rules)
	if s.State.Sysctls, err = h.sysctls(l); err != nil {
		return nil, fmt.Errorf("interface %s: %w", l.Name, err)
	}
	if s.State.Ethtool, err = h.Ethtool.Settings(l.Name); err != nil {
		return nil, err
	}
	return s, errors.Join(h.readDevice(s), h.readQueueing(s))
}

// sysctls reads the settings of a link.
func (h *Host) sysctls(l *rtnl.Link) (sysctl.Settings, error) {
	return h.Sysctl.Snapshot(l.Name, l.ConfDigest, func() (string, error) {
		now, err := h.LinkByName(l.Name)
		// Files go by the name: it must not be another link's by now, nor another name
		// of this one.
		if err != nil || now == nil || now.Index != l.Index || now.Name != l.Name {
			return "", err
		}
		return now.ConfDigest, nil
	})
}

// seenOf is what the link's own message says.
func seenOf(l *rtnl.Link) *Seen {
	return &Seen{State: State{
		Name: l.Name, Index: l.Index, PermanentMAC: l.PermanentMAC, Kind: l.Kind, AltNames: l.AltNames,
		Up: l.Up, Settings: l.Settings, XDP: l.XDP,
	}}
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
	if q.Verdict == rtnl.QdiscRestorable {
		s.State.Root, s.State.Ingress = q.Root, q.Ingress
	}
	return h.refuseQueueing(s.State.Name, q)
}

// Take is Read of a NIC that is about to leave the host. It refuses one that
// the node needs by now, since the inventory has looked earlier, and one that
// would not come back as it was.
func (snap *Snapshot) Take(id nslink.Identity) (*Seen, error) {
	s, err := snap.Read(id)
	if err != nil {
		return nil, err
	}
	return s, snap.host.refuseTake(snap.dumps, &s.State)
}

// Refresh adds routes that came since a state was read: another claim's NIC may have
// been away then, and the routes through both with it.
func (snap *Snapshot) Refresh(link *rtnl.Link, s *State) error {
	now := Seen{State: State{Name: s.Name, Index: link.Index}}
	if err := now.readRoutes(snap.dumps); err != nil {
		return err
	}
	s.addRoutes(now.State.Routes)
	return nil
}
