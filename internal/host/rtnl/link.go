// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

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
	// port of, and SlaveKind which of these that is (IFLA_INFO_SLAVE_KIND).
	Master    *int
	SlaveKind *string
	// VRFTable is the routing table of a VRF (IFLA_VRF_TABLE).
	VRFTable *uint32
	// XDP is true when a program runs in the driver or the generic hook.
	XDP bool
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

const xdpNone = 0 // XDP_ATTACHED_NONE (include/uapi/linux/if_link.h)

// Links lists the links of the namespace.
func (c *Conn) Links() ([]Link, error) {
	var links []Link
	err := c.each("links", unix.RTM_GETLINK, unix.RTM_NEWLINK, func(body []byte) error {
		l, err := parseLink(body)
		links = append(links, l)
		return err
	}, nl.NewIfInfomsg(unix.AF_UNSPEC), noStatistics())
	return links, err
}

// LinkByName returns the link that goes by a name, an alternative one included;
// nil when there is none.
func (c *Conn) LinkByName(name string) (*Link, error) {
	attribute := unix.IFLA_IFNAME
	if len(name) >= unix.IFNAMSIZ {
		attribute = unix.IFLA_ALT_IFNAME
	}
	l, err := c.link(nl.NewIfInfomsg(unix.AF_UNSPEC), noStatistics(), nl.NewRtAttr(attribute, nl.ZeroTerminated(name)))
	if err != nil {
		return nil, fmt.Errorf("look up link %q: %w", name, err)
	}
	return l, nil
}

func noStatistics() *nl.RtAttr {
	return nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStatistics))
}

func (c *Conn) link(data ...nl.NetlinkRequestData) (*Link, error) {
	answers, err := c.execute(c.request(unix.RTM_GETLINK, 0, data...), unix.RTM_NEWLINK)
	if errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err == nil && len(answers) == 0 {
		err = errors.New("no answer")
	}
	if err != nil {
		return nil, err
	}
	l, err := parseLink(answers[0])
	return &l, err
}

func parseLink(body []byte) (Link, error) {
	if len(body) < unix.SizeofIfInfomsg {
		return Link{}, fmt.Errorf("a message of %d bytes is no link", len(body))
	}
	// struct ifinfomsg: family, padding, type, index, flags, change.
	header := nl.IfInfomsg{}
	header.Type = binary.NativeEndian.Uint16(body[2:4])
	flags := binary.NativeEndian.Uint32(body[8:12])
	l := Link{
		Index:         int(int32(binary.NativeEndian.Uint32(body[4:8]))),
		Up:            flags&unix.IFF_UP != 0,
		State:         operState(nil),
		Encapsulation: header.EncapType(),
		Settings:      newSettings(flags),
	}
	var below lower
	err := EachAttribute(body[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) error {
		l.Settings.take(kind, value)
		below.take(kind, value)
		return l.take(kind, value)
	})
	if err != nil {
		return Link{}, fmt.Errorf("a link's message: %w", err)
	}
	l.MAC, l.MTU, l.Alias = l.Settings.MAC, l.Settings.MTU, known(*l.Settings.Alias)
	l.Lower = below.of(l)
	slices.Sort(l.AltNames)
	return l, nil
}

func (l *Link) take(kind uint16, value []byte) error {
	switch kind {
	case unix.IFLA_IFNAME:
		l.Name = unix.ByteSliceToString(value)
	case unix.IFLA_PERM_ADDRESS:
		l.PermanentMAC = mac(value)
	case unix.IFLA_MASTER:
		l.Master = index(value)
	case unix.IFLA_OPERSTATE:
		l.State = operState(value)
	case unix.IFLA_PARENT_DEV_NAME:
		l.BusAddress = known(unix.ByteSliceToString(value))
	case unix.IFLA_PARENT_DEV_BUS_NAME:
		l.Bus = known(unix.ByteSliceToString(value))
	case unix.IFLA_PROP_LIST:
		return EachAttribute(value, func(kind uint16, value []byte) error {
			if kind == unix.IFLA_ALT_IFNAME {
				l.AltNames = append(l.AltNames, unix.ByteSliceToString(value))
			}
			return nil
		})
	case unix.IFLA_LINKINFO:
		return EachAttribute(value, l.takeInfo)
	case unix.IFLA_XDP:
		return EachAttribute(value, func(kind uint16, value []byte) error {
			if kind == unix.IFLA_XDP_ATTACHED {
				l.XDP = !bytes.Equal(value, []byte{xdpNone})
			}
			return nil
		})
	}
	return nil
}

func (l *Link) takeInfo(kind uint16, value []byte) error {
	switch kind {
	case unix.IFLA_INFO_KIND:
		l.Kind = known(unix.ByteSliceToString(value))
	case unix.IFLA_INFO_SLAVE_KIND:
		l.SlaveKind = known(unix.ByteSliceToString(value))
	case unix.IFLA_INFO_DATA:
		// The kind comes before its data (net/core/rtnetlink.c).
		if l.Kind == nil || *l.Kind != "vrf" {
			return nil
		}
		return EachAttribute(value, func(kind uint16, value []byte) error {
			if kind == unix.IFLA_VRF_TABLE {
				l.VRFTable = number(value)
			}
			return nil
		})
	}
	return nil
}

// lower is what IFLA_LINK says, which depends on other attributes.
type lower struct {
	index     *int
	elsewhere bool
}

func (b *lower) take(kind uint16, value []byte) {
	switch kind {
	case unix.IFLA_LINK:
		b.index = index(value)
	case unix.IFLA_LINK_NETNSID:
		b.elsewhere = true
	}
}

// of is nil for a veth, whose IFLA_LINK is its peer, and for the tunnels that
// name themselves.
func (b *lower) of(l Link) *int {
	veth := l.Kind != nil && *l.Kind == "veth"
	if b.index == nil || b.elsewhere || veth || *b.index == l.Index {
		return nil
	}
	return b.index
}

// operState is the word of operstate in sysfs (net/core/net-sysfs.c).
func operState(value []byte) string {
	words := []string{"unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"}
	if len(value) != 1 || int(value[0]) >= len(words) {
		return words[0]
	}
	return words[value[0]]
}

// known is nil for the zero value, which none of these attributes has.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
