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

	"plumbline.dev/plumbline/internal/host/sysfs"
)

// Link is one link as RTM_NEWLINK describes it. Nil: the message does not say.
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
	// State is spelled as in sysfs's operstate, such as "up" (IFLA_OPERSTATE).
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
	// Lower are the ifindexes, in the same namespace, of the links below this
	// one, sorted: a VLAN's parent (IFLA_LINK), a VXLAN's (IFLA_VXLAN_LINK). The
	// ports of a bridge or a bond are not among them: they have it as their Master.
	Lower []int
	// Child is how a macvlan, an ipvlan or a vlan stands on the link below; nil for others.
	Child *Child
	// Bus and BusAddress name the parent device, such as "pci" and
	// "0000:8f:00.0" (IFLA_PARENT_DEV_BUS_NAME and _NAME, since Linux 5.14).
	Bus, BusAddress *string
	// PortName is the port of the device behind it, such as "p0"
	// (IFLA_PHYS_PORT_NAME).
	PortName *string
	// ConfDigest is a digest of the link's settings of ipv4/conf and ipv6/conf, that
	// is of IFLA_INET_CONF and IFLA_INET6_CONF and of which of the two there are. Two
	// links with the same digest have the same settings, but for those that the lists
	// lack (ipv6/conf/stable_secret). Empty where the message has neither list.
	ConfDigest string
}

// IsRepresentor tells whether a link is a NIC's end of a virtual function.
func (l Link) IsRepresentor() bool { return l.PortName != nil && sysfs.IsRepresentor(*l.PortName) }

// skipStatistics is RTEXT_FILTER_SKIP_STATS (include/uapi/linux/rtnetlink.h):
// counters are most of a link's message, and are not used here.
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

// LinksWhere lists the wanted links of the namespace. The kernel has no such filter, so
// that all are read, but only the wanted ones are kept and count against the Limit: a
// NIC is found among however many links a pod has made.
func (c *Conn) LinksWhere(wanted func(l *Link) bool) ([]Link, error) {
	var links []Link
	match := func(body []byte) bool {
		l, err := parseLink(body)
		return err != nil || wanted(&l)
	}
	err := c.eachOf("links", unix.RTM_GETLINK, unix.RTM_NEWLINK, match, func(body []byte) error {
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
	var below lowers
	err := EachAttribute(body[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) error {
		l.Settings.take(kind, value)
		below.take(kind, value)
		return l.take(kind, value, &below)
	})
	if err != nil {
		return Link{}, fmt.Errorf("a link's message: %w", err)
	}
	l.MAC, l.MTU, l.Alias = l.Settings.MAC, l.Settings.MTU, known(*l.Settings.Alias)
	l.Lower = below.of(l)
	slices.Sort(l.AltNames)
	return l, nil
}

func (l *Link) take(kind uint16, value []byte, below *lowers) error {
	switch kind {
	case unix.IFLA_IFNAME:
		l.Name = unix.ByteSliceToString(value)
	case unix.IFLA_PERM_ADDRESS:
		l.PermanentMAC = mac(value)
	case unix.IFLA_MASTER:
		l.Master = index(value)
	case unix.IFLA_OPERSTATE:
		l.State = operState(value)
	case unix.IFLA_AF_SPEC:
		l.ConfDigest = confDigest(value)
	case unix.IFLA_PHYS_PORT_NAME:
		l.PortName = known(unix.ByteSliceToString(value))
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
		return EachAttribute(value, func(kind uint16, value []byte) error { return l.takeInfo(kind, value, below) })
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

func (l *Link) takeInfo(kind uint16, value []byte, below *lowers) error {
	switch kind {
	case unix.IFLA_INFO_KIND:
		l.Kind = known(unix.ByteSliceToString(value))
	case unix.IFLA_INFO_SLAVE_KIND:
		l.SlaveKind = known(unix.ByteSliceToString(value))
	case unix.IFLA_INFO_DATA:
		// The kind comes before its data (net/core/rtnetlink.c).
		if l.Kind == nil {
			return nil
		}
		l.Child = childOfKind(*l.Kind)
		if *l.Kind != "vrf" && lowerData[*l.Kind] == nil && l.Child == nil {
			return nil
		}
		return EachAttribute(value, func(kind uint16, value []byte) error {
			l.Child.take(kind, value)
			if *l.Kind == "vrf" && kind == unix.IFLA_VRF_TABLE {
				l.VRFTable = number(value)
			}
			below.takeData(*l.Kind, kind, value)
			return nil
		})
	}
	return nil
}

// amtLink is IFLA_AMT_LINK, which x/sys does not name (include/uapi/linux/amt.h).
const amtLink = 4

// lowerData are the kinds that name links below them within IFLA_INFO_DATA, and
// by which attributes. Three of them say so nowhere else: vxlan
// (drivers/net/vxlan/vxlan_core.c, vxlan_fill_info), amt and hsr have no
// ndo_get_iflink. All other kinds that stand on a link tell it by IFLA_LINK, or
// the link below tells its master.
var lowerData = map[string][]uint16{
	"vxlan": {unix.IFLA_VXLAN_LINK},
	"amt":   {amtLink},
	"hsr":   {unix.IFLA_HSR_SLAVE1, unix.IFLA_HSR_SLAVE2, unix.IFLA_HSR_INTERLINK},
	"dsa":   {unix.IFLA_DSA_CONDUIT},
}

// pairs are the kinds whose IFLA_LINK is the other end of a pair, not a link below.
var pairs = []string{"veth", "vxcan", "netkit"}

// lowers gathers what a link's message says of the links below it.
type lowers struct {
	link      *int
	data      []int
	elsewhere bool
}

func (b *lowers) take(kind uint16, value []byte) {
	switch kind {
	case unix.IFLA_LINK:
		b.link = index(value)
	case unix.IFLA_LINK_NETNSID:
		b.elsewhere = true
	}
}

// takeData reads one attribute of the data of a kind.
func (b *lowers) takeData(of string, kind uint16, value []byte) {
	if at := index(value); at != nil && slices.Contains(lowerData[of], kind) {
		b.data = append(b.data, *at)
	}
}

// of are the links below a link. Left out are the link itself, which tunnels without a
// lower link name, and the other end of a pair.
func (b *lowers) of(l Link) []int {
	if b.elsewhere {
		return nil
	}
	list := b.data
	if b.link != nil && (l.Kind == nil || !slices.Contains(pairs, *l.Kind)) {
		list = append(list, *b.link)
	}
	list = slices.DeleteFunc(list, func(at int) bool { return at == l.Index })
	slices.Sort(list)
	return slices.Compact(list)
}

// operState is the spelling of operstate in sysfs (net/core/net-sysfs.c).
func operState(value []byte) string {
	words := []string{"unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"}
	if len(value) != 1 || int(value[0]) >= len(words) {
		return words[0]
	}
	return words[value[0]]
}

// known is nil for the zero value, which means unknown in these attributes.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
