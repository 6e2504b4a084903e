// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysfs"
)

// Netlink is the Links of a live network namespace.
type Netlink struct {
	conn      *rtnl.Conn
	namespace int
	// eventBytes is the receive buffer for events; 0: rtnl's default.
	eventBytes int
	// moved has a value when the node has other addresses than before.
	moved chan struct{}

	mu            sync.Mutex
	nodeAddresses []netip.Addr
}

// OpenNetlink opens the network namespace of a descriptor, which stays the
// caller's and open; netns.Current is the process's own. Links that own or lead
// to one of nodeAddresses (the node's own and the API server's) are the node's
// uplinks, besides those of the default route.
func OpenNetlink(namespace int, nodeAddresses []netip.Addr) (*Netlink, error) {
	conn, err := rtnl.Dial(namespace)
	if err != nil {
		return nil, err
	}
	return &Netlink{conn: conn, namespace: namespace, moved: make(chan struct{}, 1), nodeAddresses: nodeAddresses}, nil
}

// SetNodeAddresses replaces the addresses whose links the node can not spare.
func (n *Netlink) SetNodeAddresses(list []netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Equal(n.nodeAddresses, list) {
		return
	}
	n.nodeAddresses = slices.Clone(list)
	select {
	case n.moved <- struct{}{}:
	default: // a value is pending, for this change too
	}
}

// Close closes the socket.
func (n *Netlink) Close() { n.conn.Close() }

// Links implements Links: three dumps whatever the number of links.
func (n *Netlink) Links(context.Context) ([]LinkFacts, error) {
	links, err := n.conn.Links()
	if err != nil {
		return nil, err
	}
	addresses, err := n.conn.Prefixes()
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	nodeAddresses := n.nodeAddresses
	n.mu.Unlock()
	needed, err := n.conn.Uplinks(nodeAddresses, addresses)
	if err != nil {
		return nil, err
	}
	return linkFacts(links, addresses, needed), nil
}

// Subscribe implements Links. It also subscribes to uevents of devices: an RDMA device
// that appears on an interface causes no event of rtnetlink.
func (n *Netlink) Subscribe(ctx context.Context) (<-chan struct{}, error) {
	ctx, cancel := context.WithCancel(ctx)
	subscribe := rtnl.Subscribe
	if n.eventBytes > 0 {
		subscribe = func(ctx context.Context, namespace int) (<-chan struct{}, error) {
			return rtnl.SubscribeBuffer(ctx, namespace, n.eventBytes)
		}
	}
	links, err := subscribe(ctx, n.namespace)
	if err != nil {
		cancel()
		return nil, err
	}
	devices, err := sysfs.SubscribeUevents(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	either := make(chan struct{}, 1)
	go func() {
		defer close(either)
		defer cancel()
		for {
			open := false
			select {
			case _, open = <-links:
			case _, open = <-devices:
			case <-n.moved:
				open = true
			}
			if !open {
				return
			}
			select {
			case either <- struct{}{}:
			default: // a value is pending, for this change too
			}
		}
	}()
	return either, nil
}

func linkFacts(links []rtnl.Link, addresses []rtnl.Prefix, needed map[int]string) []LinkFacts {
	global := map[int][]netip.Prefix{}
	for _, a := range addresses {
		if a.Global {
			global[a.Index] = append(global[a.Index], a.Prefix)
		}
	}
	facts := make([]LinkFacts, 0, len(links))
	for _, l := range links {
		f := LinkFacts{
			Name: l.Name, Index: l.Index, MAC: l.MAC, PermanentMAC: l.PermanentMAC,
			MTU: l.MTU, Up: &l.Up, State: &l.State, Encapsulation: &l.Encapsulation,
			Kind: l.Kind, Alias: l.Alias, Master: l.Master, Lower: l.Lower,
			Addresses: global[l.Index],
		}
		slices.SortFunc(f.Addresses, netip.Prefix.Compare)
		if reason, ok := needed[l.Index]; ok {
			f.Uplink = &reason
		}
		facts = append(facts, f)
	}
	return facts
}
