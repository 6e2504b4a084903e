// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Settings are what can be set of a link beside its name and state. Nil is
// unknown when read, and leaves a setting as it is when set.
type Settings struct {
	// MTU is in bytes.
	MTU *int `json:"mtu,omitempty"`
	// MAC is the address in use, lower case.
	MAC *string `json:"mac,omitempty"`
	// Alias may be empty.
	Alias *string `json:"alias,omitempty"`
	// Group is the link's group, 0 by default.
	Group *uint32 `json:"group,omitempty"`
	// TxQueueLen is in packets.
	TxQueueLen *uint32 `json:"txQueueLen,omitempty"`
	// Flags are those of SettableFlags.
	Flags *uint32 `json:"flags,omitempty"`
	// AddrGenMode is how IPv6 makes link-local addresses
	// (IFLA_INET6_ADDR_GEN_MODE); nil without IPv6.
	AddrGenMode *uint8 `json:"addrGenMode,omitempty"`
	// Token is the lower half of the addresses that IPv6 makes of router
	// advertisements (IFLA_INET6_TOKEN); nil where there is none. A move loses
	// it.
	Token *netip.Addr `json:"token,omitempty"`
	// Mode is IF_LINK_MODE_*: whether the carrier alone makes the link
	// operational (IFLA_LINKMODE).
	Mode *uint8 `json:"mode,omitempty"`
	// Broadcast is the link layer's broadcast address, lower case.
	Broadcast *string `json:"broadcast,omitempty"`
	// GSOMax and the others are limits of segmentation and receive offload in
	// bytes, GSOMaxSegs in segments; nil where the kernel has no such setting
	// (the IPv4 ones came with Linux 6.3).
	GSOMax     *uint32 `json:"gsoMax,omitempty"`
	GSOMaxSegs *uint32 `json:"gsoMaxSegs,omitempty"`
	GROMax     *uint32 `json:"groMax,omitempty"`
	GSOIPv4Max *uint32 `json:"gsoIPv4Max,omitempty"`
	GROIPv4Max *uint32 `json:"groIPv4Max,omitempty"`
}

// SettableFlags are the flags of Settings: those that an administrator sets,
// without up and down.
const SettableFlags = unix.IFF_NOARP | unix.IFF_MULTICAST | unix.IFF_ALLMULTI | unix.IFF_PROMISC | unix.IFF_DEBUG |
	unix.IFF_DYNAMIC

// newSettings are the settings of a link whose message has none of their attributes.
func newSettings(flags uint32) Settings {
	flags &= SettableFlags
	return Settings{Alias: new(string), Group: new(uint32), TxQueueLen: new(uint32), Flags: &flags}
}

// take reads one attribute of a link's message.
func (s *Settings) take(kind uint16, value []byte) {
	switch kind {
	case unix.IFLA_MTU:
		s.MTU = index(value)
	case unix.IFLA_ADDRESS:
		s.MAC = mac(value)
	case unix.IFLA_IFALIAS:
		*s.Alias = unix.ByteSliceToString(value)
	case unix.IFLA_GROUP:
		s.Group = number(value)
	case unix.IFLA_TXQLEN:
		s.TxQueueLen = number(value)
	case unix.IFLA_GSO_MAX_SIZE:
		s.GSOMax = number(value)
	case unix.IFLA_GSO_MAX_SEGS:
		s.GSOMaxSegs = number(value)
	case unix.IFLA_GRO_MAX_SIZE:
		s.GROMax = number(value)
	case unix.IFLA_GSO_IPV4_MAX_SIZE:
		s.GSOIPv4Max = number(value)
	case unix.IFLA_GRO_IPV4_MAX_SIZE:
		s.GROIPv4Max = number(value)
	case unix.IFLA_LINKMODE:
		s.Mode = octet(value)
	case unix.IFLA_BROADCAST:
		s.Broadcast = mac(value)
	case unix.IFLA_AF_SPEC:
		s.takeIPv6(value)
	}
}

// takeIPv6 reads what is within AF_INET6 within IFLA_AF_SPEC.
func (s *Settings) takeIPv6(spec []byte) {
	_ = EachAttribute(spec, func(family uint16, value []byte) error {
		if family != unix.AF_INET6 {
			return nil
		}
		return EachAttribute(value, func(kind uint16, value []byte) error {
			switch kind {
			case unix.IFLA_INET6_ADDR_GEN_MODE:
				s.AddrGenMode = octet(value)
			case unix.IFLA_INET6_TOKEN:
				if token, ok := netip.AddrFromSlice(value); ok && !token.IsUnspecified() {
					s.Token = &token
				}
			}
			return nil
		})
	})
}

// confLists are the attributes that list all settings of a family, within the
// family's within IFLA_AF_SPEC (net/ipv4/devinet.c, inet_fill_link_af;
// net/ipv6/addrconf.c, ipv6_store_devconf). Beside them are counters, flags and
// times, which are no settings.
var confLists = map[uint16]uint16{unix.AF_INET: unix.IFLA_INET_CONF, unix.AF_INET6: unix.IFLA_INET6_CONF}

// confDigest is Link.ConfDigest of what is within IFLA_AF_SPEC.
func confDigest(spec []byte) string {
	var lists []byte
	err := EachAttribute(spec, func(family uint16, value []byte) error {
		list, known := confLists[family]
		if !known {
			return nil
		}
		return EachAttribute(value, func(kind uint16, value []byte) error {
			if kind == list {
				lists = binary.NativeEndian.AppendUint16(lists, family)
				lists = binary.NativeEndian.AppendUint16(lists, uint16(len(value)))
				lists = append(lists, value...)
			}
			return nil
		})
	})
	if err != nil || lists == nil {
		return ""
	}
	digest := sha256.Sum256(lists)
	return string(digest[:])
}

// octet is the value of an attribute of one byte, nil for another length.
func octet(value []byte) *uint8 {
	if len(value) != 1 {
		return nil
	}
	return new(value[0])
}

// Beyond are the settings of s that differ in have.
func (s Settings) Beyond(have Settings) Settings {
	return Settings{
		MTU:         beyond(s.MTU, have.MTU),
		MAC:         beyond(s.MAC, have.MAC),
		Alias:       beyond(s.Alias, have.Alias),
		Group:       beyond(s.Group, have.Group),
		TxQueueLen:  beyond(s.TxQueueLen, have.TxQueueLen),
		Flags:       beyond(s.Flags, have.Flags),
		AddrGenMode: beyond(s.AddrGenMode, have.AddrGenMode),
		Token:       beyond(s.Token, have.Token),
		Mode:        beyond(s.Mode, have.Mode),
		Broadcast:   beyond(s.Broadcast, have.Broadcast),
		GSOMax:      beyond(s.GSOMax, have.GSOMax),
		GSOMaxSegs:  beyond(s.GSOMaxSegs, have.GSOMaxSegs),
		GROMax:      beyond(s.GROMax, have.GROMax),
		GSOIPv4Max:  beyond(s.GSOIPv4Max, have.GSOIPv4Max),
		GROIPv4Max:  beyond(s.GROIPv4Max, have.GROIPv4Max),
	}
}

func beyond[T comparable](want, have *T) *T {
	if want == nil || have != nil && *have == *want {
		return nil
	}
	return want
}

// String lists the settings that are set, for messages.
func (s Settings) String() string {
	var words []string
	add(&words, "mtu", s.MTU)
	add(&words, "address", s.MAC)
	add(&words, "alias", s.Alias)
	add(&words, "group", s.Group)
	add(&words, "txqueuelen", s.TxQueueLen)
	add(&words, "flags", s.Flags)
	add(&words, "addrgenmode", s.AddrGenMode)
	add(&words, "token", s.Token)
	add(&words, "mode", s.Mode)
	add(&words, "broadcast", s.Broadcast)
	add(&words, "gso_max_size", s.GSOMax)
	add(&words, "gso_max_segs", s.GSOMaxSegs)
	add(&words, "gro_max_size", s.GROMax)
	add(&words, "gso_ipv4_max_size", s.GSOIPv4Max)
	add(&words, "gro_ipv4_max_size", s.GROIPv4Max)
	return strings.Join(words, ", ")
}

func add[T any](words *[]string, name string, v *T) {
	if v != nil {
		*words = append(*words, fmt.Sprintf("%s %v", name, *v))
	}
}

func (s Settings) attributes() ([]nl.NetlinkRequestData, error) {
	var list []nl.NetlinkRequestData
	if s.MTU != nil {
		list = append(list, nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(*s.MTU))))
	}
	for _, address := range []struct {
		attribute int
		value     *string
	}{{unix.IFLA_ADDRESS, s.MAC}, {unix.IFLA_BROADCAST, s.Broadcast}} {
		if address.value == nil {
			continue
		}
		mac, err := net.ParseMAC(*address.value)
		if err != nil {
			return nil, err
		}
		list = append(list, nl.NewRtAttr(address.attribute, mac))
	}
	if s.Alias != nil {
		list = append(list, nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(*s.Alias)))
	}
	if s.Mode != nil {
		list = append(list, nl.NewRtAttr(unix.IFLA_LINKMODE, []byte{*s.Mode}))
	}
	if s.AddrGenMode != nil || s.Token != nil {
		spec := nl.NewRtAttr(unix.IFLA_AF_SPEC, nil)
		ipv6 := spec.AddRtAttr(unix.AF_INET6, nil)
		if s.AddrGenMode != nil {
			ipv6.AddRtAttr(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{*s.AddrGenMode})
		}
		if s.Token != nil {
			ipv6.AddRtAttr(unix.IFLA_INET6_TOKEN, s.Token.AsSlice())
		}
		list = append(list, spec)
	}
	// A small gso_max_size also lowers the one of IPv4, which therefore comes
	// after it (net/core/dev.c, netif_set_gso_max_size).
	for _, number := range []struct {
		attribute int
		value     *uint32
	}{
		{unix.IFLA_GROUP, s.Group},
		{unix.IFLA_TXQLEN, s.TxQueueLen},
		{unix.IFLA_GSO_MAX_SIZE, s.GSOMax},
		{unix.IFLA_GSO_MAX_SEGS, s.GSOMaxSegs},
		{unix.IFLA_GRO_MAX_SIZE, s.GROMax},
		{unix.IFLA_GSO_IPV4_MAX_SIZE, s.GSOIPv4Max},
		{unix.IFLA_GRO_IPV4_MAX_SIZE, s.GROIPv4Max},
	} {
		if number.value != nil {
			list = append(list, nl.NewRtAttr(number.attribute, nl.Uint32Attr(*number.value)))
		}
	}
	return list, nil
}
