// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package rtnl reads and changes the links, addresses, routes, rules, neighbours
// and queueing disciplines of a network namespace by rtnetlink
// (Documentation/userspace-api/netlink/, man 7 rtnetlink). It is, with
// host/rdma, the only importer of the netlink library.
//
// Every call goes through a Conn, a socket opened in the namespace it is about,
// so that no caller changes the namespace of a thread. What must come back
// exactly as it was (addresses, routes, neighbours) is kept as the kernel's own
// message, as "ip route save" does, and not as a selection of its fields.
//
// Which link to take, and when, is the drivers' business.
package rtnl

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
)

// Conn is a socket in one network namespace. Several goroutines may use it;
// requests take turns.
type Conn struct {
	sockets  map[int]*nl.SocketHandle
	messages atomic.Int64
	now      func() time.Time
	onChange func()
}

// Counts are what a Conn has cost so far.
type Counts struct {
	// Sockets were opened, Setns calls of setns(2) made to open them, and
	// Messages sent.
	Sockets, Setns, Messages int64
}

// Add sums up.
func (c Counts) Add(o Counts) Counts {
	return Counts{Sockets: c.Sockets + o.Sockets, Setns: c.Setns + o.Setns, Messages: c.Messages + o.Messages}
}

// replySeconds is how long a request may take. The kernel works under one lock
// for all namespaces, and a driver may hold it while it resets its device.
const replySeconds = 60

// Dial opens a socket in the network namespace of a descriptor.
func Dial(namespace int) (*Conn, error) {
	var s *nl.NetlinkSocket
	err := netns.Do(namespace, func() (err error) {
		s, err = nl.Subscribe(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	limit := &unix.Timeval{Sec: replySeconds}
	// The kernel's own sentence beside the error number is worth having.
	if err := errors.Join(s.SetExtAck(true), s.SetReceiveTimeout(limit), s.SetSendTimeout(limit)); err != nil {
		s.Close()
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	return &Conn{sockets: map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: s}}, now: time.Now}, nil
}

// Close closes the socket.
func (c *Conn) Close() { c.sockets[unix.NETLINK_ROUTE].Close() }

// Counts are what the Conn has cost so far: one socket, a way there and back,
// and its requests.
func (c *Conn) Counts() Counts { return Counts{Sockets: 1, Setns: 2, Messages: c.messages.Load()} }

func (c *Conn) request(kind, flags int, data ...nl.NetlinkRequestData) *nl.NetlinkRequest {
	r := nl.NewNetlinkRequest(kind, flags)
	r.Sockets = c.sockets
	for _, d := range data {
		r.AddData(d)
	}
	return r
}

// execute sends a request, and returns the bodies of the answers of one kind.
func (c *Conn) execute(r *nl.NetlinkRequest, answer uint16) ([][]byte, error) {
	c.messages.Add(1)
	return r.Execute(unix.NETLINK_ROUTE, answer)
}

// OnChange has fn called after every change that the kernel acknowledged: a test
// stops there. Call it before the Conn is used.
func (c *Conn) OnChange(fn func()) { c.onChange = fn }

// change sends a request that is answered by an acknowledgement.
func (c *Conn) change(kind, flags int, data ...nl.NetlinkRequestData) error {
	_, err := c.execute(c.request(kind, flags|unix.NLM_F_ACK, data...), 0)
	if err == nil && c.onChange != nil {
		c.onChange()
	}
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
		messages, err = c.execute(c.request(get, unix.NLM_F_DUMP, data...), uint16(answer))
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return messages, err
		}
	}
	return nil, err
}

// each hands the bodies of all messages of a kind to a function. What is listed
// is for the error.
func (c *Conn) each(what string, get, answer int, take func(body []byte) error, data ...nl.NetlinkRequestData) error {
	messages, err := c.dump(get, answer, data...)
	for i := 0; err == nil && i < len(messages); i++ {
		err = take(messages[i])
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", what, err)
	}
	return nil
}

// raw is a body, or a part of one, as it goes over the wire.
type raw []byte

// Len is the length in bytes.
func (r raw) Len() int { return len(r) }

// Serialize is the bytes.
func (r raw) Serialize() []byte { return r }
