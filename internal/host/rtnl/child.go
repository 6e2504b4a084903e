// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Child is a link that stands on another one.
type Child struct {
	// Kind is macvlan, ipvlan or vlan.
	Kind string `json:"kind"`
	// Mode is a macvlan's or an ipvlan's, and Flag an ipvlan's, in the words of ip(8).
	Mode string `json:"mode,omitempty"`
	Flag string `json:"flag,omitempty"`
	// VLANID is the tag of a vlan.
	VLANID uint16 `json:"vlanID,omitempty"`
}

// The words of ip(8) and the kernel's numbers (include/uapi/linux/if_link.h).
var (
	macvlanModes = map[string]uint32{"private": 1, "vepa": 2, "bridge": 4, "passthru": 8}
	ipvlanModes  = map[string]uint16{"l2": 0, "l3": 1, "l3s": 2}
	ipvlanFlags  = map[string]uint16{"bridge": 0, "private": 1, "vepa": 2}
)

// CreateChild makes a link on a link of this namespace, within the namespace of a
// descriptor: it is never here. It is down. MTU and MAC may be set; nil leaves the
// kernel's. The name must be free here too, as far as Linux before 6.15 is concerned
// (net/core/rtnetlink.c, rtnl_newlink).
func (c *Conn) CreateChild(parent, namespace int, name string, child Child, mtu *int, mac *string) error {
	info, err := child.info()
	if err == nil {
		var attributes []nl.NetlinkRequestData
		attributes, err = Settings{MTU: mtu, MAC: mac}.attributes()
		data := append([]nl.NetlinkRequestData{
			nl.NewIfInfomsg(unix.AF_UNSPEC),
			nl.NewRtAttr(unix.IFLA_LINK, nl.Uint32Attr(uint32(parent))),
			// Not IFLA_LINK_NETNSID, with which the link would be made here and moved.
			nl.NewRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(namespace))),
			nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)),
			info,
		}, attributes...)
		if err == nil {
			err = c.change(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, data...)
		}
	}
	if err != nil {
		return fmt.Errorf("make %s on link %d: %w", child.Kind, parent, err)
	}
	return nil
}

func (c Child) info() (*nl.RtAttr, error) {
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(unix.IFLA_INFO_KIND, nl.NonZeroTerminated(c.Kind))
	data := info.AddRtAttr(unix.IFLA_INFO_DATA, nil)
	switch c.Kind {
	case "macvlan":
		mode, known := macvlanModes[c.Mode]
		if !known {
			return nil, fmt.Errorf("mode %q: want bridge, private, vepa or passthru", c.Mode)
		}
		data.AddRtAttr(nl.IFLA_MACVLAN_MODE, nl.Uint32Attr(mode))
	case "ipvlan":
		mode, known := ipvlanModes[c.Mode]
		flag, knownFlag := ipvlanFlags[c.Flag]
		if !known || !knownFlag {
			return nil, fmt.Errorf("mode %q, flag %q: want l2, l3 or l3s, and bridge, private or vepa", c.Mode, c.Flag)
		}
		data.AddRtAttr(nl.IFLA_IPVLAN_MODE, nl.Uint16Attr(mode))
		data.AddRtAttr(nl.IFLA_IPVLAN_FLAG, nl.Uint16Attr(flag))
	case "vlan":
		data.AddRtAttr(nl.IFLA_VLAN_ID, nl.Uint16Attr(c.VLANID))
	default:
		return nil, fmt.Errorf("kind %q: want macvlan, ipvlan or vlan", c.Kind)
	}
	return info, nil
}

// childOfKind is a Child to read a link's data into; nil for links of other kinds.
func childOfKind(kind string) *Child {
	switch kind {
	case "macvlan", "ipvlan", "vlan":
		return &Child{Kind: kind}
	}
	return nil
}

// take reads one attribute of a link's data. What this build has no word for stays empty.
func (c *Child) take(attribute uint16, value []byte) {
	switch {
	case c == nil:
	case c.Kind == "macvlan" && attribute == nl.IFLA_MACVLAN_MODE && len(value) == 4:
		c.Mode = word(macvlanModes, binary.NativeEndian.Uint32(value))
	case len(value) != 2:
	case c.Kind == "ipvlan" && attribute == nl.IFLA_IPVLAN_MODE:
		c.Mode = word(ipvlanModes, binary.NativeEndian.Uint16(value))
	case c.Kind == "ipvlan" && attribute == nl.IFLA_IPVLAN_FLAG:
		c.Flag = word(ipvlanFlags, binary.NativeEndian.Uint16(value))
	case c.Kind == "vlan" && attribute == nl.IFLA_VLAN_ID:
		c.VLANID = binary.NativeEndian.Uint16(value)
	}
}

// word is ip(8)'s for a number of the kernel's.
func word[N comparable](words map[string]N, number N) string {
	for word, n := range words {
		if n == number {
			return word
		}
	}
	return ""
}
