// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nslink

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// Identity is how to find a NIC's link in any namespace and under any name. A
// hardware NIC is identified by its PCI address and port; its burned-in MAC only
// decides between several, since drivers such as iavf overwrite it with the address in
// use when they are reset. A virtual link has neither: it is identified by its MAC, or
// the one that a configuration gave it, and of several with one MAC by its ifindex.
type Identity struct {
	pci, port         *string
	permanentMAC, mac *string
	given             *string
	kind              *string
	// alone says that the function has no other interface.
	alone bool
	// index is the ifindex seen last; 0 is none.
	index int
	// alias and firstName are set of a link that was made for a pod; kind and name too.
	alias, firstName *string
	// name is the one it should have, and host says that this is the host's.
	name *string
	host bool
}

// IdentityOf is the identity of a NIC as the inventory knew it. givenMAC is the
// MAC that a configuration gives it, nil when it keeps its own.
func IdentityOf(nic model.NIC, givenMAC *string) Identity {
	id := Identity{port: nic.Port, given: givenMAC}
	if nic.PCI != nil {
		text := nic.PCI.String()
		id.pci = &text
	}
	if i := nic.Interface; i != nil {
		id.permanentMAC, id.mac, id.kind, id.index = i.PermanentMAC, i.MAC, i.Kind, i.Index
	}
	return id
}

// ChildIdentity is the identity of a link of a kind that was made for a pod: it has an alias
// of its own. Before it gets that it has a name of its own, or the one that it keeps: then it
// is down, which what somebody else has made there is not for long.
func ChildIdentity(kind, alias, firstName, name string) Identity {
	return Identity{kind: &kind, alias: &alias, firstName: &firstName, name: &name}
}

// Alone is the identity of the only interface of a PCI function. Where there are
// several, rtnetlink does not say which port a link is (dev_port is in sysfs
// alone, and only in that of the link's own namespace), so that the burned-in
// MAC stands for it.
func (id Identity) Alone(alone bool) Identity {
	id.alone = alone
	return id
}

// Named is the identity where the link was given a name, which the pod may have
// changed since: it tells apart what nothing else does.
func (id Identity) Named(name string) Identity {
	id.name = &name
	return id
}

// OnHost is the identity on the host, where a virtual link had this name and
// ifindex: one that has neither is another link with the same MAC, as all
// ipvlans of one parent have.
func (id Identity) OnHost(name string, index int) Identity {
	id.name, id.index, id.host = &name, index, true
	return id
}

// Find returns the link with an identity, nil when there is none, and an error
// when several could be it.
func (id Identity) Find(links []rtnl.Link) (*rtnl.Link, error) {
	var found []*rtnl.Link
	for i := range links {
		if id.Matches(links[i]) {
			found = append(found, &links[i])
		}
	}
	// The strongest sign first; one that no link has is ignored.
	for _, sign := range []func(*rtnl.Link) bool{
		func(l *rtnl.Link) bool { return !standsOnOne(l, found) },
		func(l *rtnl.Link) bool { return id.permanentMAC != nil && same(id.permanentMAC, l.PermanentMAC) },
		func(l *rtnl.Link) bool { return id.mac != nil && same(id.mac, l.MAC) },
		id.hasIndex,
		id.hasName,
	} {
		without := func(l *rtnl.Link) bool { return !sign(l) }
		if len(found) > 1 && slices.ContainsFunc(found, sign) {
			found = slices.DeleteFunc(slices.Clone(found), without)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	names := make([]string, len(found))
	for i, l := range found {
		names[i] = l.Name
	}
	return nil, fmt.Errorf("interfaces %s could all be %s", strings.Join(names, ", "), id)
}

// standsOnOne tells whether a link stands on one of others, and is not the NIC
// itself: InfiniBand's child interfaces have their parent's function.
func standsOnOne(l *rtnl.Link, others []*rtnl.Link) bool {
	return slices.ContainsFunc(others, func(o *rtnl.Link) bool { return slices.Contains(l.Lower, o.Index) })
}

// Certain tells whether a link that Find returned is the NIC whatever other namespace
// there is. A virtual link that got another ifindex on its way may be one with
// the same MAC.
func (id Identity) Certain(l *rtnl.Link) bool { return id.kind == nil || id.hasIndex(l) }

func (id Identity) hasIndex(l *rtnl.Link) bool { return id.index != 0 && id.index == l.Index }

func (id Identity) hasName(l *rtnl.Link) bool { return id.name != nil && *id.name == l.Name }

// Matches tells whether a link can be the NIC.
func (id Identity) Matches(l rtnl.Link) bool {
	switch {
	case id.alias != nil:
		unfinished := l.Alias == nil && !l.Up && same(id.kind, l.Kind)
		return same(id.alias, l.Alias) || *id.firstName == l.Name || unfinished && *id.name == l.Name
	case !same(id.kind, l.Kind) || l.IsRepresentor():
		return false
	case id.pci != nil && l.Bus != nil && *l.Bus == "pci":
		// Two functions may share a burned-in address.
		return same(id.pci, l.BusAddress) && (id.alone || id.hasPort(l))
	}
	return id.hasAddress(l)
}

// hasPort tells whether a link of the NIC's function is its port, for all that
// rtnetlink says of it.
func (id Identity) hasPort(l rtnl.Link) bool {
	known := id.permanentMAC != nil && l.PermanentMAC != nil
	return id.port == nil && !known || id.hasAddress(l)
}

// hasAddress tells whether a link has the NIC's permanent MAC, or its MAC where
// it has no permanent one.
func (id Identity) hasAddress(l rtnl.Link) bool {
	if id.permanentMAC != nil {
		return same(id.permanentMAC, l.PermanentMAC)
	}
	return id.mac != nil && l.PermanentMAC == nil && l.MAC != nil && id.hasMAC(l)
}

// hasMAC tells whether a link has the NIC's own MAC, or the given one. On the
// host this is not enough for a virtual link, and not for a MAC that another may
// have as its own.
func (id Identity) hasMAC(l rtnl.Link) bool {
	wasHere := !id.host || id.hasName(&l) || id.hasIndex(&l)
	if *l.MAC == *id.mac {
		return id.kind == nil || wasHere
	}
	return id.given != nil && *l.MAC == *id.given && wasHere
}

// String names the NIC.
func (id Identity) String() string {
	switch {
	case id.alias != nil:
		return "the link with alias " + *id.alias
	case id.pci != nil:
		return "PCI function " + *id.pci
	case id.permanentMAC != nil:
		return "the NIC with permanent MAC " + *id.permanentMAC
	case id.mac != nil:
		return "the NIC with MAC " + *id.mac
	}
	return "a NIC without PCI address and MAC"
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// NetNSConn is a network namespace with an rtnetlink socket in it. The socket is the
// only one of it.
type NetNSConn struct {
	*rtnl.Conn
	namespace *netns.Namespace
}

// Open opens the namespace at a path. The error is netns.ErrGone when there is
// none.
func Open(path string) (*NetNSConn, error) {
	ns, err := netns.Open(path)
	if err != nil {
		return nil, err
	}
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		return nil, errors.Join(err, ns.Close())
	}
	return &NetNSConn{Conn: conn, namespace: ns}, nil
}

// Close closes what Open opened.
func (c *NetNSConn) Close() {
	c.Conn.Close()
	_ = c.namespace.Close() // nothing was written
}

// Fd is a descriptor of the namespace, valid until Close.
func (c *NetNSConn) Fd() int { return c.namespace.Fd() }

// Is tells whether both are of the same namespace.
func (c *NetNSConn) Is(o *NetNSConn) bool { return c.namespace.ID() == o.namespace.ID() }

// Find returns the link of a NIC, nil when it is not in this namespace.
func (c *NetNSConn) Find(id Identity) (*rtnl.Link, error) {
	links, err := LinksOf(c.Conn, id)
	if err != nil {
		return nil, err
	}
	return id.Find(links)
}

// LinksOf lists the links that could be one of some NICs: Find returns the same of
// them as of all links.
func LinksOf(conn *rtnl.Conn, ids ...Identity) ([]rtnl.Link, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return conn.LinksWhere(func(l *rtnl.Link) bool {
		return slices.ContainsFunc(ids, func(id Identity) bool { return id.Matches(*l) })
	})
}

// OtherNamed returns the link that has a name or alternative name and is not the one of
// an index; nil where the name is free for that link.
func OtherNamed(links []rtnl.Link, index int, name string) *rtnl.Link {
	i := slices.IndexFunc(links, func(l rtnl.Link) bool {
		return l.Index != index && (l.Name == name || slices.Contains(l.AltNames, name))
	})
	if i < 0 {
		return nil
	}
	return &links[i]
}
