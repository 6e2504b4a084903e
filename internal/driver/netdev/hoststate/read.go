// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

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
	// the Conn. Only tests set it: they simulate a crash there.
	Changed func()
	// Sys is /sys, which says what numbers virtual functions have.
	Sys fs.FS
	// VFs sets virtual functions; the Conn where it is nil, as it is outside of tests.
	VFs VFSetter
	// AllowLoss takes NICs although something on them will not come back.
	AllowLoss bool
}

// Step is called after a change to the kernel.
func (h *Host) Step() {
	if h.Changed != nil {
		h.Changed()
	}
}

// Snapshot is the host at one time, from which any number of NICs is read: each dump of
// the whole host is made once.
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

// Read reads all that must be restored of a NIC that is on the host.
func (snap *Snapshot) Read(id nslink.Identity) (*HostNIC, error) {
	h, v := snap.host, snap.dumps
	l, err := snap.Find(id)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, fmt.Errorf("%s is not in the host's network namespace", id)
	}
	s := seenOf(l)
	if err := RefusePort(v.links, l); err != nil {
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
		// The files are named after the link: the name must still be this link's, and
		// not an alternative one.
		if err != nil || now == nil || now.Index != l.Index || now.Name != l.Name {
			return "", err
		}
		return now.ConfDigest, nil
	})
}

// seenOf is what the link's own message says.
func seenOf(l *rtnl.Link) *HostNIC {
	return &HostNIC{State: State{
		Name: l.Name, Index: l.Index, PermanentMAC: l.PermanentMAC, Kind: l.Kind, AltNames: l.AltNames,
		Up: l.Up, Settings: l.Settings, XDP: l.XDP,
	}}
}

// readDevice adds what belongs to the device.
func (h *Host) readDevice(s *HostNIC) error {
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

func (h *Host) readQueueing(s *HostNIC) error {
	q, err := h.Queueing(s.State.Index)
	if err != nil {
		return err
	}
	if q.Verdict == rtnl.QdiscRestorable {
		s.State.Root, s.State.Ingress = q.Root, q.Ingress
	}
	return h.refuseQueueing(s.State.Name, q)
}

// Take is Read of a NIC that is about to leave the host. It refuses one that the node
// needs, which may have changed since the inventory's scan, and one that could not be
// restored.
func (snap *Snapshot) Take(id nslink.Identity) (*HostNIC, error) {
	s, err := snap.Read(id)
	if err != nil {
		return nil, err
	}
	return s, snap.host.refuseTake(snap.dumps, &s.State)
}

// Refresh adds routes that were added since a state was read: another claim's NIC may
// have been away then, and the routes through both with it.
func (snap *Snapshot) Refresh(link *rtnl.Link, s *State) error {
	now := HostNIC{State: State{Name: s.Name, Index: link.Index}}
	if err := now.readRoutes(snap.dumps); err != nil {
		return err
	}
	s.addRoutes(now.State.Routes)
	return nil
}

// dumps are the host's links, addresses and routes at one time. Each dump is made once,
// for however many NICs.
type dumps struct {
	links     []rtnl.Link
	addresses []rtnl.Address
	routes    []rtnl.Route
	// known are the routes' messages; nil until they are needed.
	known messages
}

func dump(conn *rtnl.Conn) (*dumps, error) {
	links, err := conn.Links()
	if err != nil {
		return nil, err
	}
	return dumpBeside(conn, links)
}

// dumpBeside is dump where the links are known.
func dumpBeside(conn *rtnl.Conn, links []rtnl.Link) (*dumps, error) {
	v := dumps{links: links}
	var err error
	if v.addresses, err = conn.Addresses(); err != nil {
		return nil, err
	}
	// 0 is no link: the routes keep the indexes that they have.
	v.routes, err = conn.Routes(0)
	return &v, err
}

// messages is a set of saved objects.
type messages map[string]bool

func (m messages) add(s rtnl.Saved) { m[string(s.Message)] = true }

func (m messages) has(s rtnl.Saved) bool { return m[string(s.Message)] }

// without returns those of the routes that are not on the host.
func (v *dumps) without(routes []rtnl.Saved) []rtnl.Saved {
	if v.known == nil {
		v.known = make(messages, len(v.routes))
		for _, r := range v.routes {
			v.known.add(r.Saved)
		}
	}
	return slices.DeleteFunc(routes, v.known.has)
}

// readAddresses adds the link's addresses.
func (s *HostNIC) readAddresses(v *dumps) {
	for _, a := range v.addresses {
		if a.Index != s.State.Index || a.Kernel {
			continue
		}
		s.State.Addresses = append(s.State.Addresses, a.Saved)
		s.State.Prefixes = append(s.State.Prefixes, a.Prefix)
		if a.Global {
			s.Addresses = append(s.Addresses, a.Prefix)
		}
	}
}

// readRoutes adds the routes that go away with the link.
func (s *HostNIC) readRoutes(v *dumps) error {
	own := s.State.Index
	owners := make(map[netip.Addr]int, len(v.addresses))
	for _, a := range slices.Backward(v.addresses) { // the first of several counts
		owners[a.Prefix.Addr()] = a.Index
	}
	for _, r := range v.routes {
		// A route needs its links, and the link that owns its source address.
		needs := slices.Clone(r.Links)
		if owner, known := owners[r.Source]; known {
			needs = append(needs, owner)
		}
		if r.Kernel || !slices.Contains(needs, own) {
			continue
		}
		if r.Shared {
			return fmt.Errorf("route %s of interface %s uses a nexthop object, which could not be restored: "+
				"write it with via and dev", r.Text, s.State.Name)
		}
		var err error
		if r.Saved, err = rtnl.Redirect(r.Saved, map[int]int{own: 0}); err != nil {
			return err
		}
		route := Route{Saved: r.Saved}
		for _, index := range needs {
			if index != own {
				route.Others = append(route.Others, OtherLink{Index: index, Name: linkName(v.links, index)})
			}
		}
		s.State.Routes = append(s.State.Routes, route)
		if len(route.Others) == 0 {
			s.Routes = append(s.Routes, r)
		}
	}
	return nil
}

// readRules adds the rules that name the link, and finds those that lead to its
// routes.
func (s *HostNIC) readRules(rules []rtnl.Rule) {
	for _, r := range rules {
		if r.Input == s.State.Name || r.Output == s.State.Name {
			s.State.Rules = append(s.State.Rules, r.Saved)
			continue
		}
		leads := slices.ContainsFunc(s.Routes, func(route rtnl.Route) bool { return route.Table == r.Table })
		if leads && !r.Kernel && r.Input == "" && r.Output == "" {
			s.Rules = append(s.Rules, r)
		}
	}
	slices.SortStableFunc(s.Rules, func(a, b rtnl.Rule) int { return cmp.Compare(a.Priority, b.Priority) })
}

func linkName(links []rtnl.Link, index int) string {
	i := slices.IndexFunc(links, func(l rtnl.Link) bool { return l.Index == index })
	if i < 0 {
		return fmt.Sprintf("link %d", index)
	}
	return links[i].Name
}
