// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Saved is an address, route or neighbour of a link, kept so that it can be put
// back with everything the kernel said of it.
type Saved struct {
	// Text is for people, much as ip prints it.
	Text string `json:"text"`
	// Message is the body of the kernel's message in this machine's byte order,
	// without what is no part of the configuration (age, counters), and with 0
	// for the link's own ifindex, which may have changed when it is restored. Two
	// that are equal are the same object.
	Message []byte `json:"message"`
	// Valid and Preferred are when an address expires and when it is no longer
	// used for new connections; nil is never. Equal ignores them, since a DHCP client
	// changes them all the time.
	Valid     *time.Time `json:"valid,omitempty"`
	Preferred *time.Time `json:"preferred,omitempty"`
}

// Expired tells whether the kernel would have removed the address by now.
func (s Saved) Expired(now time.Time) bool { return s.Valid != nil && !s.Valid.After(now) }

// Equal tells whether two are the same object.
func (s Saved) Equal(o Saved) bool { return bytes.Equal(s.Message, o.Message) }

// message is a parsed body: a fixed header and attributes.
type message struct {
	header     []byte
	attributes []syscall.NetlinkRouteAttr
}

// parseMessage copies a body; changing the result leaves it as it was.
func parseMessage(body []byte, headerLen int) (message, error) {
	if len(body) < headerLen {
		return message{}, fmt.Errorf("a message of %d bytes, want at least %d", len(body), headerLen)
	}
	// The library's parser steps by aligned lengths, and would read beyond a body
	// that was truncated, as in a damaged journal.
	body = append(bytes.Clone(body), make([]byte, -len(body)&(unix.RTA_ALIGNTO-1))...)
	attributes, err := nl.ParseRouteAttr(body[headerLen:])
	if err != nil {
		return message{}, fmt.Errorf("take a message's attributes apart: %w", err)
	}
	return message{header: body[:headerLen:headerLen], attributes: attributes}, nil
}

// get returns an attribute's value, nil when the message lacks it.
func (m message) get(kind uint16) []byte {
	for _, a := range m.attributes {
		if a.Attr.Type&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER) == kind {
			return a.Value
		}
	}
	return nil
}

// number returns an attribute of four bytes.
func (m message) number(kind uint16) (uint32, bool) {
	v := m.get(kind)
	if len(v) != 4 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(v), true
}

// without returns the body without some attributes.
func (m message) without(kinds ...uint16) []byte {
	out := bytes.Clone(m.header)
attributes:
	for _, a := range m.attributes {
		for _, k := range kinds {
			if a.Attr.Type == k {
				continue attributes
			}
		}
		out = append(out, nl.NewRtAttr(int(a.Attr.Type), a.Value).Serialize()...)
	}
	return out
}

// EachAttribute calls take with each attribute of a part of a message; kind is without
// NLA_F_*. The values are not copied.
func EachAttribute(attributes []byte, take func(kind uint16, value []byte) error) error {
	for len(attributes) >= unix.SizeofRtAttr {
		n := int(binary.NativeEndian.Uint16(attributes[0:2]))
		if n < unix.SizeofRtAttr || n > len(attributes) {
			return fmt.Errorf("an attribute that says it has %d of %d bytes", n, len(attributes))
		}
		kind := binary.NativeEndian.Uint16(attributes[2:4]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if err := take(kind, attributes[unix.SizeofRtAttr:n]); err != nil {
			return err
		}
		attributes = attributes[min(len(attributes), (n+unix.RTA_ALIGNTO-1)&^(unix.RTA_ALIGNTO-1)):]
	}
	return nil
}

// number is the value of an attribute of four bytes, nil for another length.
func number(value []byte) *uint32 {
	if len(value) != 4 {
		return nil
	}
	n := binary.NativeEndian.Uint32(value)
	return &n
}

// index is an ifindex; 0 is none.
func index(value []byte) *int {
	n := number(value)
	if n == nil || *n == 0 {
		return nil
	}
	i := int(int32(*n))
	return &i
}

// mac is a link layer address; nothing but zeroes is none.
func mac(value []byte) *string {
	if len(bytes.Trim(value, "\x00")) == 0 {
		return nil
	}
	return known(net.HardwareAddr(value).String())
}

// swapIndex replaces a 32-bit ifindex in place.
func swapIndex(field []byte, from, to int) {
	if len(field) == 4 && binary.NativeEndian.Uint32(field) == uint32(from) {
		binary.NativeEndian.PutUint32(field, uint32(to))
	}
}
