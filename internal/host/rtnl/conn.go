// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Conn is a socket in one network namespace. Several goroutines may use it;
// requests take turns.
type Conn struct {
	sockets map[int]*nl.SocketHandle
}

// replySeconds is how long a request may take. The kernel works under one lock
// for all namespaces, and a driver may hold it while it resets its device.
const replySeconds = 60

// Dial opens a socket in the network namespace of a descriptor.
func Dial(namespace int) (*Conn, error) {
	s, err := nl.GetNetlinkSocketAt(netns.NsHandle(namespace), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	limit := &unix.Timeval{Sec: replySeconds}
	// The kernel's own sentence beside the error number is worth having.
	if err := errors.Join(s.SetExtAck(true), s.SetReceiveTimeout(limit), s.SetSendTimeout(limit)); err != nil {
		s.Close()
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	return &Conn{sockets: map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: s}}}, nil
}

// Close closes the socket.
func (c *Conn) Close() { c.sockets[unix.NETLINK_ROUTE].Close() }

func (c *Conn) request(kind, flags int, data ...nl.NetlinkRequestData) *nl.NetlinkRequest {
	r := nl.NewNetlinkRequest(kind, flags)
	r.Sockets = c.sockets
	for _, d := range data {
		r.AddData(d)
	}
	return r
}

// change sends a request that is answered by an acknowledgement.
func (c *Conn) change(kind, flags int, data ...nl.NetlinkRequestData) error {
	_, err := c.request(kind, flags|unix.NLM_F_ACK, data...).Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// dumpTries bounds how often a dump is repeated that a change interrupted
// (NLM_F_DUMP_INTR): such a dump may lack or repeat entries.
const dumpTries = 8

// dump returns the bodies of all messages of a kind.
func (c *Conn) dump(get, answer int, data ...nl.NetlinkRequestData) ([][]byte, error) {
	var messages [][]byte
	var err error
	for range dumpTries {
		messages, err = c.request(get, unix.NLM_F_DUMP, data...).Execute(unix.NETLINK_ROUTE, uint16(answer))
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return messages, err
		}
	}
	return nil, err
}

// raw is a body, or a part of one, as it goes over the wire.
type raw []byte

// Len is the length in bytes.
func (r raw) Len() int { return len(r) }

// Serialize is the bytes.
func (r raw) Serialize() []byte { return r }
