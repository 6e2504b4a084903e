// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"fmt"
	"math"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Change is what to change of a link. Nil leaves a setting as it is.
type Change struct {
	Name *string
	Up   *bool
	Settings
}

// Set changes a link in place.
func (c *Conn) Set(index int, change Change) error {
	if err := c.setLink(index, change); err != nil {
		return fmt.Errorf("change link %d: %w", index, err)
	}
	return nil
}

// Move moves a link to the namespace of a descriptor, and gives it its new name
// and settings there, in one message: at no moment is it in the new namespace
// under the old name. The link arrives down, without addresses, routes or
// neighbours. The kernel moves before it changes settings, so that after an
// error the link may be on either side (net/core/rtnetlink.c, do_setlink).
func (c *Conn) Move(index, namespace int, change Change) error {
	if err := c.setLink(index, change, nl.NewRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(namespace)))); err != nil {
		return fmt.Errorf("move link %d to another network namespace: %w", index, err)
	}
	return nil
}

func (c *Conn) setLink(index int, change Change, more ...nl.NetlinkRequestData) error {
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = int32(index)
	if change.Up != nil {
		header.Change |= unix.IFF_UP
		if *change.Up {
			header.Flags |= unix.IFF_UP
		}
	}
	if change.Flags != nil {
		header.Change |= SettableFlags
		header.Flags |= *change.Flags & SettableFlags
	}
	attributes, err := change.attributes()
	if err != nil {
		return err
	}
	data := append([]nl.NetlinkRequestData{header}, more...)
	if change.Name != nil {
		data = append(data, nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(*change.Name)))
	}
	return c.change(unix.RTM_NEWLINK, 0, append(data, attributes...)...)
}

// DetachXDP detaches the XDP programs of a link, in whichever mode they run. One
// that a BPF link holds stays, with an error (net/core/dev.c, dev_xdp_attach).
func (c *Conn) DetachXDP(index int) error {
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = int32(index)
	for _, hook := range []uint32{unix.XDP_FLAGS_SKB_MODE, unix.XDP_FLAGS_DRV_MODE, unix.XDP_FLAGS_HW_MODE} {
		xdp := nl.NewRtAttr(unix.IFLA_XDP|unix.NLA_F_NESTED, nil)
		xdp.AddRtAttr(unix.IFLA_XDP_FD, nl.Uint32Attr(math.MaxUint32)) // -1: none
		xdp.AddRtAttr(unix.IFLA_XDP_FLAGS, nl.Uint32Attr(hook))
		err := c.change(unix.RTM_SETLINK, 0, header, xdp)
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("take the XDP program off link %d: %w", index, err)
		}
	}
	return nil
}

// AddAltName adds an alternative name to a link (ip link property).
func (c *Conn) AddAltName(index int, name string) error {
	return c.altName(unix.RTM_NEWLINKPROP, unix.NLM_F_CREATE|unix.NLM_F_EXCL, index, name)
}

// DeleteAltName deletes an alternative name of a link.
func (c *Conn) DeleteAltName(index int, name string) error {
	return c.altName(unix.RTM_DELLINKPROP, 0, index, name)
}

func (c *Conn) altName(kind, flags, index int, name string) error {
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = int32(index)
	list := nl.NewRtAttr(unix.IFLA_PROP_LIST|unix.NLA_F_NESTED, nil)
	list.AddRtAttr(unix.IFLA_ALT_IFNAME, nl.ZeroTerminated(name))
	if err := c.change(kind, flags, header, list); err != nil {
		return fmt.Errorf("change alternative name %q of link %d: %w", name, index, err)
	}
	return nil
}

// SetMaster makes a link a port of another one, of none with nil. The kernel
// drops global IPv6 addresses of a link that becomes a VRF's port: give it its
// addresses afterwards (net/ipv6/addrconf.c, addrconf_notify).
func (c *Conn) SetMaster(index int, master *int) error {
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = int32(index)
	var to uint32
	if master != nil {
		to = uint32(*master)
	}
	if err := c.change(unix.RTM_NEWLINK, 0, header, nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(to))); err != nil {
		return fmt.Errorf("make link %d a port of link %d: %w", index, to, err)
	}
	return nil
}

// CreateVRF makes a VRF with a routing table, down, or finds the one that is
// there with that name and table.
func (c *Conn) CreateVRF(name string, table uint32) (index int, err error) {
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(unix.IFLA_INFO_KIND, nl.NonZeroTerminated("vrf"))
	info.AddRtAttr(unix.IFLA_INFO_DATA, nil).AddRtAttr(unix.IFLA_VRF_TABLE, nl.Uint32Attr(table))
	err = c.change(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, nl.NewIfInfomsg(unix.AF_UNSPEC),
		nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)), info)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return 0, fmt.Errorf("make VRF %s of table %d: %w", name, table, err)
	}
	l, err := c.LinkByName(name)
	switch {
	case err != nil:
		return 0, fmt.Errorf("make VRF %s of table %d: %w", name, table, err)
	case l == nil:
		return 0, fmt.Errorf("make VRF %s of table %d: it is gone again", name, table)
	case l.VRFTable == nil:
		return 0, fmt.Errorf("make VRF %s of table %d: another kind of link has that name", name, table)
	case *l.VRFTable != table:
		return 0, fmt.Errorf("make VRF %s of table %d: there is one of table %d", name, table, *l.VRFTable)
	}
	return l.Index, nil
}

// DeleteLink deletes a virtual link. It is no error when it is gone.
func (c *Conn) DeleteLink(index int) error {
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = int32(index)
	if err := c.change(unix.RTM_DELLINK, 0, header); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete link %d: %w", index, err)
	}
	return nil
}
