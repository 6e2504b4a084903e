// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Link is one link as RTM_NEWLINK tells it. Nil is: the kernel does not say.
type Link struct {
	Name string
	// Index is the ifindex: it identifies the link in its namespace until it
	// leaves, and often, but not always, stays the same when it comes back.
	Index int
	// AltNames are the other names it goes by (ip link property), sorted.
	AltNames []string
	// MAC and PermanentMAC are lower case (IFLA_ADDRESS, IFLA_PERM_ADDRESS).
	MAC, PermanentMAC *string
	// MTU is in bytes.
	MTU *int
	// Alias is IFLA_IFALIAS; nil when empty.
	Alias *string
	// Settings are all that can be set, MTU, MAC and alias among them.
	Settings Settings
	// Up is the administrator's IFF_UP, not the carrier.
	Up bool
	// State is operstate's word in sysfs, such as "up" (IFLA_OPERSTATE).
	State string
	// Encapsulation is the link layer: ether, infiniband, loopback (ifi_type).
	Encapsulation string
	// Kind is IFLA_INFO_KIND, such as veth; nil for hardware.
	Kind *string
	// Master is the ifindex of the bridge, bond, team or VRF that the link is a
	// port of.
	Master *int
	// Lower is the ifindex, in the same namespace, of the link below this one:
	// a VLAN's or macvlan's parent (IFLA_LINK).
	Lower *int
	// Bus and BusAddress name the parent device, such as "pci" and
	// "0000:8f:00.0" (IFLA_PARENT_DEV_BUS_NAME and _NAME, since Linux 5.14).
	Bus, BusAddress *string
}

// skipStatistics is RTEXT_FILTER_SKIP_STATS (include/uapi/linux/rtnetlink.h):
// counters are most of a link's message, and nobody reads them here.
const skipStatistics = 1 << 3

// Links lists the links of the namespace.
func (c *Conn) Links() ([]Link, error) {
	messages, err := c.dump(unix.RTM_GETLINK, unix.RTM_NEWLINK,
		nl.NewIfInfomsg(unix.AF_UNSPEC),
		nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStatistics)))
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	links := make([]Link, 0, len(messages))
	for _, m := range messages {
		l, err := parseLink(m)
		if err != nil {
			return nil, fmt.Errorf("list links: %w", err)
		}
		links = append(links, l)
	}
	return links, nil
}

func parseLink(message []byte) (Link, error) {
	if len(message) < unix.SizeofIfInfomsg {
		return Link{}, fmt.Errorf("a message of %d bytes is no link", len(message))
	}
	decoded, err := netlink.LinkDeserialize(nil, message)
	if err != nil {
		return Link{}, err
	}
	a := decoded.Attrs()
	settings, err := parseSettings(message, a)
	if err != nil {
		return Link{}, err
	}
	l := Link{
		Name:          a.Name,
		Index:         a.Index,
		AltNames:      slices.Sorted(slices.Values(a.AltNames)),
		MAC:           settings.MAC,
		PermanentMAC:  known(a.PermHWAddr.String()),
		MTU:           settings.MTU,
		Alias:         known(a.Alias),
		Settings:      settings,
		Up:            a.RawFlags&unix.IFF_UP != 0,
		State:         operState(a.OperState),
		Encapsulation: a.EncapType,
		Master:        known(a.MasterIndex),
		Bus:           known(a.ParentDevBus),
		BusAddress:    known(a.ParentDev),
	}
	// The library calls hardware "device", a kind the kernel does not have.
	if kind := decoded.Type(); kind != "device" {
		l.Kind = known(kind)
	}
	// IFLA_LINK of a veth is its peer; with a namespace id the other link is
	// elsewhere.
	if decoded.Type() != "veth" && a.NetNsID < 0 && a.ParentIndex != a.Index {
		l.Lower = known(a.ParentIndex)
	}
	return l, nil
}

// operState is the word of operstate in sysfs (net/core/net-sysfs.c).
func operState(s netlink.LinkOperState) string {
	words := []string{"unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"}
	if int(s) >= len(words) {
		return words[0]
	}
	return words[s]
}

// known is nil for the zero value, which none of these attributes has.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
