// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package side

import (
	"errors"
	"fmt"

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
	links, err := s.Links()
	if err != nil {
		return nil, err
	}
	return id.Find(links)
}

// CheckFree says in advance, and better, what the kernel would say.
func CheckFree(links []rtnl.Link, name string) error {
	for _, l := range links {
		if l.Name == name {
			return fmt.Errorf("there is another interface %q by now", name)
		}
	}
	return nil
}
