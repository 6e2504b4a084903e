// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/bpf"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// Refusals says why Take would refuse links, whatever a claim asks of them, and
// which eBPF programs are on them, by their ifindexes; a link that it would take is not
// among the refusals. It is for the inventory, which must not offer refused links, and
// reads no more than that needs. What the inventory finds out by itself, such as the
// default route, is not checked again.
func (h *Host) Refusals(indexes []int) (refusals map[int]error, programs map[int]model.Programs, err error) {
	v, err := h.dumpForRefusals()
	if err != nil {
		return nil, nil, err
	}
	queueings, err := h.Queueings(indexes)
	if err != nil {
		return nil, nil, err
	}
	attached, failed := bpf.ListMany(h.Fd(), queueings)
	refusals, programs = map[int]error{}, make(map[int]model.Programs, len(indexes))
	for i := range v.links {
		l := &v.links[i]
		if !slices.Contains(indexes, l.Index) {
			continue
		}
		s := seenOf(l)
		s.State.Programs = attached[l.Index]
		err := errors.Join(RefusePort(v.links, l), s.readRoutes(v), h.refuseQueueing(l.Name, queueings[l.Index]),
			h.refuseTake(v, &s.State), h.refusePrograms(s, failed[l.Index]))
		if err != nil {
			refusals[l.Index] = err
		}
		if failed[l.Index] == nil {
			programs[l.Index] = namesOf(s.State.Programs)
		}
	}
	return refusals, programs, nil
}

// refusePrograms refuses programs that could not be kept, or not be listed.
func (h *Host) refusePrograms(s *HostNIC, failed error) error {
	if failed != nil && !errors.Is(failed, unix.ENODEV) { // ENODEV: the link is gone
		return fmt.Errorf("list eBPF programs of interface %s: %w", s.State.Name, failed)
	}
	if h.BPFFS != "" {
		return nil
	}
	return RefuseUnkept(&s.State, false)
}

// maxNames is more than an attribute has room for: 64 bytes of names of one
// character, and a comma after each.
const maxNames = 32

// namesOf is what programs are called.
func namesOf(list []bpf.Attachment) model.Programs {
	p := model.Programs{Attached: len(list) > 0}
	for _, a := range list {
		switch {
		case a.Kind == bpf.TC && a.Filter != nil && a.Filter.Name != "":
			p.Filters = append(p.Filters, a.Filter.Name)
		case a.Kind == bpf.TCX && a.ProgramName != "":
			p.TCX = append(p.TCX, a.ProgramName)
		}
	}
	for _, names := range []*[]string{&p.Filters, &p.TCX} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
		*names = (*names)[:min(len(*names), maxNames)]
	}
	return p
}

// dumpForRefusals reads the links, and of addresses and routes those that
// readRoutes refuses for: most hosts have none.
func (h *Host) dumpForRefusals() (*dumps, error) {
	var v dumps
	var err error
	if v.links, err = h.Links(); err != nil {
		return nil, err
	}
	if v.routes, err = h.SharedRoutes(); err == nil && len(v.routes) > 0 {
		v.addresses, err = h.Addresses()
	}
	return &v, err
}

// refuseTake is why a link whose state was read is not taken.
func (h *Host) refuseTake(v *dumps, s *State) error {
	return errors.Join(refuseNeeded(v, s), h.refuseLost(s), s.refuseNames())
}

// RefusePort refuses a port of anything but a VRF, which alone is restored.
func RefusePort(links []rtnl.Link, l *rtnl.Link) error {
	if l.Master == nil || l.SlaveKind != nil && *l.SlaveKind == "vrf" {
		return nil
	}
	return fmt.Errorf("interface %s is a port of %s, which would lose it", l.Name, linkName(links, *l.Master))
}

func (h *Host) refuseQueueing(name string, q rtnl.Queueing) error {
	if q.Verdict != rtnl.QdiscLost || h.AllowLoss {
		return nil
	}
	return fmt.Errorf("interface %s: %s, which could not be restored: remove that first", name, q.Reason)
}

// RefuseUnkept refuses eBPF programs where there is no BPF file system to keep
// them in: those that the move loses, and all when the configuration takes them
// off.
func RefuseUnkept(s *State, off bool) error {
	i := slices.IndexFunc(s.Programs, func(a bpf.Attachment) bool { return off || a.Kind == bpf.TC })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("interface %s has %s, and this node has no BPF file system to keep it in: mount one, or detach it",
		s.Name, s.Programs[i])
}

// RefuseUpper refuses a link that others stand on: the kernel deletes them with
// it, or leaves them without a way out, and Detach brings back none of them.
func RefuseUpper(links []rtnl.Link, index int, name string) error {
	for _, l := range links {
		if slices.Contains(l.Lower, index) {
			kind := "link"
			if l.Kind != nil {
				kind = *l.Kind
			}
			return fmt.Errorf("interface %s carries %s %s, which would be lost: remove that first", name, kind, l.Name)
		}
	}
	return nil
}

// refuseNeeded refuses a link that others on the host need.
func refuseNeeded(v *dumps, s *State) error {
	if err := RefuseUpper(v.links, s.Index, s.Name); err != nil {
		return err
	}
	for _, r := range v.routes {
		inUse := r.Table == unix.RT_TABLE_MAIN || r.Table == unix.RT_TABLE_DEFAULT
		if inUse && r.Unicast && r.Destination.Bits() == 0 && r.Through(s.Index) {
			return fmt.Errorf("interface %s carries the default route (%s): it is the node's", s.Name, r.Text)
		}
	}
	return nil
}

// refuseLost refuses a link with state that cannot be restored.
func (h *Host) refuseLost(s *State) error {
	if s.XDP && !h.AllowLoss {
		return fmt.Errorf("interface %s has an XDP program, which could not be restored: detach it first", s.Name)
	}
	// net/ipv6/addrconf.c, inet6_set_iftoken
	if flags := s.Settings.Flags; s.Settings.Token != nil && flags != nil && *flags&unix.IFF_NOARP != 0 && !h.AllowLoss {
		return fmt.Errorf("interface %s has the IPv6 token %s and no ARP, beside which the kernel takes none back: "+
			"ip link set %s arp on, or ip token del", s.Name, s.Settings.Token, s.Name)
	}
	return nil
}

// refuseNames refuses names that a record, which is JSON, would change. The
// kernel takes any bytes but slashes, colons and blanks (net/core/dev.c,
// dev_valid_name).
func (s *State) refuseNames() error {
	var errs []error
	for _, name := range append([]string{s.Name}, s.AltNames...) {
		if !utf8.ValidString(name) {
			errs = append(errs, fmt.Errorf("interface %q: its name %q is not UTF-8, and could not be restored: rename it", s.Name, name))
		}
	}
	return errors.Join(errs...)
}
