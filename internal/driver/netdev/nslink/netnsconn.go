// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nslink

import (
	"errors"
	"slices"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

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

// LinksOf lists those links that could be one of some NICs, in which each of
// these is found as among all.
func LinksOf(conn *rtnl.Conn, ids ...Identity) ([]rtnl.Link, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return conn.LinksWhere(func(l *rtnl.Link) bool {
		return slices.ContainsFunc(ids, func(id Identity) bool { return id.Matches(*l) })
	})
}

// OtherNamed returns the link that goes by a name, an alternative one included, and
// is not the one of an index; nil where the name is free for that.
func OtherNamed(links []rtnl.Link, index int, name string) *rtnl.Link {
	i := slices.IndexFunc(links, func(l rtnl.Link) bool {
		return l.Index != index && (l.Name == name || slices.Contains(l.AltNames, name))
	})
	if i < 0 {
		return nil
	}
	return &links[i]
}
