// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package rtnl reads and changes the links, addresses, routes, rules, neighbours
// and queueing disciplines of a network namespace by rtnetlink
// (Documentation/userspace-api/netlink/, man 7 rtnetlink). It is, with
// host/rdma and host/ethtool, the only importer of the netlink library.
//
// Every call goes through a Conn, a socket opened in the namespace it is about,
// so that no caller changes the namespace of a thread. What must come back
// exactly as it was (addresses, routes, neighbours) is kept as the kernel's own
// message, as "ip route save" does, and not as a selection of its fields.
//
// Which link to take, and when, is the drivers' business.
package rtnl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
)

// Conn is a socket in one network namespace. Several goroutines may use it at once;
// requests are serialized.
type Conn struct {
	sockets  map[int]*nl.SocketHandle
	messages atomic.Int64
	now      func() time.Time
	onChange func()
	// limit is the most entries of a list; 0 is none.
	limit int
}

// Counts are a Conn's system resources so far.
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
	// Errors then have the kernel's own text (NETLINK_EXT_ACK).
	if err := errors.Join(s.SetExtAck(true), s.SetReceiveTimeout(limit), s.SetSendTimeout(limit)); err != nil {
		s.Close()
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	// Since Linux 4.20 the kernel then filters dumps, such as the addresses of one
	// link. Callers filter all the same, for older kernels.
	_ = unix.SetsockoptInt(s.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	return &Conn{sockets: map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: s}}, now: time.Now}, nil
}

// Close closes the socket.
func (c *Conn) Close() { c.sockets[unix.NETLINK_ROUTE].Close() }

// Counts are the Conn's counts so far: one socket, setns(2) into the namespace and back,
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

// OnChange has fn called after every change that the kernel acknowledged, where a test
// simulates a crash. Call it before the Conn is used.
func (c *Conn) OnChange(fn func()) { c.onChange = fn }

// change sends a request that is answered by an acknowledgement.
func (c *Conn) change(kind, flags int, data ...nl.NetlinkRequestData) error {
	_, err := c.execute(c.request(kind, flags|unix.NLM_F_ACK, data...), 0)
	if err == nil && c.onChange != nil {
		c.onChange()
	}
	return err
}

// Limits of a batch, in requests and bytes: the kernel answers each request that
// fails, with the request in the answer, and all answers must fit into the socket's
// receive buffer (net.core.rmem_default).
const (
	batchRequests = 64
	batchBytes    = 32 << 10
)

// changeAll sends requests in batches, without waiting for the kernel between the
// requests of a batch, and returns the error of each.
func (c *Conn) changeAll(requests []*nl.NetlinkRequest) []error {
	errs := make([]error, 0, len(requests))
	for len(requests) > 0 {
		n, bytes := 1, size(requests[0])
		for n < min(len(requests), batchRequests) && bytes+size(requests[n]) <= batchBytes {
			bytes += size(requests[n])
			n++
		}
		results := c.batch(requests[:n])
		if c.onChange != nil && slices.Contains(results, nil) {
			c.onChange()
		}
		errs, requests = append(errs, results...), requests[n:]
	}
	return errs
}

func size(r *nl.NetlinkRequest) int {
	n := unix.SizeofNlMsghdr
	for _, d := range r.Data {
		n += d.Len()
	}
	return n
}

// batch sends requests in one datagram. Only the last has NLM_F_ACK: the kernel
// handles them in order, and answers those that fail in any case
// (net/netlink/af_netlink.c, netlink_rcv_skb).
func (c *Conn) batch(requests []*nl.NetlinkRequest) []error {
	c.messages.Add(1)
	handle := c.sockets[unix.NETLINK_ROUTE]
	handle.Socket.Lock()
	defer handle.Socket.Unlock()
	errs := make([]error, len(requests))
	last := len(requests) - 1
	requests[last].Flags |= unix.NLM_F_ACK
	first := atomic.AddUint32(&handle.Seq, uint32(len(requests))) - uint32(last)
	var out []byte
	for i, r := range requests {
		r.Seq = first + uint32(i)
		out = append(out, r.Serialize()...)
		out = append(out, make([]byte, -len(out)&(unix.NLMSG_ALIGNTO-1))...)
	}
	failed := unix.Sendto(handle.Socket.GetFd(), out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	for failed == nil {
		var answers []syscall.NetlinkMessage
		answers, _, failed = handle.Socket.Receive()
		for _, a := range answers {
			// Answers to earlier requests, such as timed out ones, are skipped.
			i := a.Header.Seq - first
			if a.Header.Type != unix.NLMSG_ERROR || i > uint32(last) {
				continue
			}
			errs[i] = answerError(a)
			if i == uint32(last) {
				return errs
			}
		}
	}
	for i := range errs {
		errs[i] = failed // which of them the kernel has seen is unknown
	}
	return errs
}

// answerError reads struct nlmsgerr: the error, the request, and the kernel's own text
// (include/uapi/linux/netlink.h).
func answerError(m syscall.NetlinkMessage) error {
	if len(m.Data) < unix.SizeofNlMsgerr {
		return fmt.Errorf("an answer of %d bytes, want at least %d", len(m.Data), unix.SizeofNlMsgerr)
	}
	number := int32(binary.NativeEndian.Uint32(m.Data))
	if number == 0 {
		return nil
	}
	var err error = unix.Errno(-number)
	request := (int(binary.NativeEndian.Uint32(m.Data[4:])) + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1)
	if m.Header.Flags&unix.NLM_F_ACK_TLVS == 0 || request > len(m.Data)-4 {
		return err
	}
	_ = EachAttribute(m.Data[4+request:], func(kind uint16, value []byte) error {
		if kind == unix.NLMSGERR_ATTR_MSG {
			err = fmt.Errorf("%w: %s", err, unix.ByteSliceToString(value))
		}
		return nil
	})
	return err
}

// dumpTries bounds how often a dump is repeated that a change interrupted
// (NLM_F_DUMP_INTR): such a dump may lack or repeat entries.
const dumpTries = 8

// PodEntries is the Limit for a pod's network namespace, where a container with
// NET_ADMIN may create any number of links, addresses and routes.
const PodEntries = 8192

// ErrTooMany says that a list is longer than the Limit.
var ErrTooMany = errors.New("too many")

// Limit refuses lists of more entries. Call it before the Conn is used.
func (c *Conn) Limit(entries int) { c.limit = entries }

// dump returns the bodies of those messages of a kind that are wanted; nil wants
// all.
func (c *Conn) dump(get, answer int, wanted func(body []byte) bool, data ...nl.NetlinkRequestData) ([][]byte, error) {
	for range dumpTries {
		messages, err := c.dumpOnce(get, answer, wanted, data...)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return messages, err
		}
	}
	return nil, netlink.ErrDumpInterrupted
}

func (c *Conn) dumpOnce(get, answer int, wanted func(body []byte) bool, data ...nl.NetlinkRequestData) ([][]byte, error) {
	c.messages.Add(1)
	var messages [][]byte
	full := false
	r := c.request(get, unix.NLM_F_DUMP, data...)
	err := r.ExecuteIter(unix.NETLINK_ROUTE, uint16(answer), func(body []byte) bool {
		switch {
		case wanted != nil && !wanted(body):
			return true
		case c.limit > 0 && len(messages) == c.limit:
			full = true // the library reads and discards the rest
			return false
		case wanted != nil:
			body = bytes.Clone(body) // or a few wanted bodies would keep the whole buffer in memory
		}
		messages = append(messages, body)
		return true
	})
	if full {
		return nil, fmt.Errorf("%w: more than %d", ErrTooMany, c.limit)
	}
	return messages, err
}

// each calls a function with the bodies of all messages of a kind. what is listed, for
// errors.
func (c *Conn) each(what string, get, answer int, take func(body []byte) error, data ...nl.NetlinkRequestData) error {
	return c.eachOf(what, get, answer, nil, take, data...)
}

// eachOf is each, with the wanted bodies only.
func (c *Conn) eachOf(what string, get, answer int, wanted func(body []byte) bool, take func(body []byte) error, data ...nl.NetlinkRequestData) error {
	messages, err := c.dump(get, answer, wanted, data...)
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
