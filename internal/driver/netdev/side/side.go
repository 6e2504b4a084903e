// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package side

import (
	"errors"
	"slices"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Side is a network namespace with an rtnetlink socket in it. The socket is the
// only one of it.
type Side struct {
	*rtnl.Conn
	namespace *netns.Namespace
}

// Open opens the namespace at a path. The error is netns.ErrGone when there is
// none.
func Open(path string) (*Side, error) {
	ns, err := netns.Open(path)
	if err != nil {
		return nil, err
	}
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		return nil, errors.Join(err, ns.Close())
	}
	return &Side{Conn: conn, namespace: ns}, nil
}

// Close closes what Open opened.
func (s *Side) Close() {
	s.Conn.Close()
	_ = s.namespace.Close() // nothing was written
}

// Fd is a descriptor of the namespace, valid until Close.
func (s *Side) Fd() int { return s.namespace.Fd() }

// Is tells whether two sides are the same namespace.
func (s *Side) Is(o *Side) bool { return s.namespace.ID() == o.namespace.ID() }

// Find returns the link of a NIC, nil when it is not on this side.
func (s *Side) Find(id Identity) (*rtnl.Link, error) {
	links, err := LinksOf(s.Conn, id)
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

// Holder returns the link that goes by a name, an alternative one included, and
// is not the one of an index; nil where the name is free for that.
func Holder(links []rtnl.Link, index int, name string) *rtnl.Link {
	i := slices.IndexFunc(links, func(l rtnl.Link) bool {
		return l.Index != index && (l.Name == name || slices.Contains(l.AltNames, name))
	})
	if i < 0 {
		return nil
	}
	return &links[i]
}
