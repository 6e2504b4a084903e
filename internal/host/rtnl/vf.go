// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// VF is a virtual function as its physical one tells of it.
type VF struct {
	// Number is that of "ip link set PF vf N".
	Number int
	VFSettings
}

// VFSettings are what can be set of a virtual function through its physical one. Nil is
// unknown when read, and leaves a setting as it is when set.
type VFSettings struct {
	// MAC is the administrator's address, lower case: the function cannot choose
	// another unless it is trusted. Zeroes leave the choice to the function. Some
	// drivers tell the address in use instead.
	MAC *string `json:"mac,omitempty"`
	// VLAN is the network that all of its packets are in.
	VLAN *VFVLAN `json:"vlan,omitempty"`
	// Rate limits what it sends.
	Rate *VFRate `json:"rate,omitempty"`
	// SpoofCheck drops packets that it sends from an address that is not its own.
	SpoofCheck *bool `json:"spoofCheck,omitempty"`
	// Trust lets it do what reaches beyond itself, such as promiscuous mode.
	Trust *bool `json:"trust,omitempty"`
}

// VFVLAN is a virtual function's VLAN. ID 0 is none.
type VFVLAN struct {
	ID  uint32 `json:"id"`
	QoS uint32 `json:"qos,omitempty"`
	// Protocol is the Ethernet type of the tag, such as 0x8100 (802.1Q).
	Protocol uint16 `json:"protocol"`
}

// VFRate is in megabits per second. 0 is no limit.
type VFRate struct {
	Min uint32 `json:"min"`
	Max uint32 `json:"max"`
}

// String names them as "ip link set PF vf N" does.
func (s VFSettings) String() string {
	var parts []string
	if s.MAC != nil {
		parts = append(parts, "mac "+*s.MAC)
	}
	if s.VLAN != nil {
		parts = append(parts, fmt.Sprintf("vlan %d qos %d proto %#04x", s.VLAN.ID, s.VLAN.QoS, s.VLAN.Protocol))
	}
	if s.Rate != nil {
		parts = append(parts, fmt.Sprintf("min_tx_rate %d max_tx_rate %d", s.Rate.Min, s.Rate.Max))
	}
	if s.SpoofCheck != nil {
		parts = append(parts, fmt.Sprintf("spoofchk %t", *s.SpoofCheck))
	}
	if s.Trust != nil {
		parts = append(parts, fmt.Sprintf("trust %t", *s.Trust))
	}
	return strings.Join(parts, " ")
}

// Beyond are those of the settings that others lack or have otherwise.
func (s VFSettings) Beyond(o VFSettings) VFSettings {
	return VFSettings{
		MAC: differing(s.MAC, o.MAC), VLAN: differing(s.VLAN, o.VLAN), Rate: differing(s.Rate, o.Rate),
		SpoofCheck: differing(s.SpoofCheck, o.SpoofCheck), Trust: differing(s.Trust, o.Trust),
	}
}

// None tells whether there is no setting.
func (s VFSettings) None() bool { return s == VFSettings{} }

func differing[T comparable](want, have *T) *T {
	if want != nil && have != nil && *want == *have {
		return nil
	}
	return want
}

// NoMAC are the zeroes that leave the choice of an Ethernet address to a virtual function.
const NoMAC = "00:00:00:00:00:00"

// VFs lists the virtual functions that a physical function's link tells of.
func (c *Conn) VFs(index int) ([]VF, error) {
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = int32(index)
	// Counters of hundreds of functions would not fit into the answer.
	mask := nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(nl.RTEXT_FILTER_VF|skipStatistics))
	answers, err := c.execute(c.request(unix.RTM_GETLINK, 0, header, mask), unix.RTM_NEWLINK)
	if err == nil && len(answers) == 0 {
		err = errors.New("no answer")
	}
	var vfs []VF
	if err == nil {
		vfs, err = parseVFs(answers[0])
	}
	if err != nil {
		return nil, fmt.Errorf("read the virtual functions of link %d: %w", index, err)
	}
	return vfs, nil
}

func parseVFs(body []byte) ([]VF, error) {
	if len(body) < unix.SizeofIfInfomsg {
		return nil, fmt.Errorf("a message of %d bytes is no link", len(body))
	}
	var vfs []VF
	err := EachAttribute(body[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) error {
		if kind != unix.IFLA_VFINFO_LIST {
			return nil
		}
		return EachAttribute(value, func(kind uint16, value []byte) error {
			if kind != nl.IFLA_VF_INFO {
				return nil
			}
			vf := VF{Number: -1}
			if err := EachAttribute(value, vf.take); err != nil {
				return err
			}
			if vf.Number >= 0 {
				vfs = append(vfs, vf)
			}
			return nil
		})
	})
	return vfs, err
}

// take reads one attribute. Each begins with the function's number
// (include/uapi/linux/if_link.h, struct ifla_vf_mac and the others).
func (v *VF) take(kind uint16, value []byte) error {
	if kind == nl.IFLA_VF_VLAN_LIST {
		return EachAttribute(value, v.takeVLAN)
	}
	if len(value) < 8 {
		return nil
	}
	first := binary.NativeEndian.Uint32(value[4:8])
	switch kind {
	case nl.IFLA_VF_MAC:
		// Other link layers have longer addresses, in the same 32 bytes.
		v.Number = int(binary.NativeEndian.Uint32(value[0:4]) & math.MaxInt32)
		if len(value) >= 10 {
			v.MAC = ptrTo(net.HardwareAddr(value[4:10]).String())
		}
	case nl.IFLA_VF_VLAN:
		if len(value) >= 12 && v.VLAN == nil {
			v.VLAN = &VFVLAN{ID: first, QoS: binary.NativeEndian.Uint32(value[8:12]), Protocol: unix.ETH_P_8021Q}
		}
	case nl.IFLA_VF_RATE:
		if len(value) >= 12 {
			v.Rate = &VFRate{Min: first, Max: binary.NativeEndian.Uint32(value[8:12])}
		}
	case nl.IFLA_VF_SPOOFCHK:
		v.SpoofCheck = flag(first)
	case nl.IFLA_VF_TRUST:
		v.Trust = flag(first)
	}
	return nil
}

// takeVLAN reads a tag with its protocol, of which IFLA_VF_VLAN does not tell.
func (v *VF) takeVLAN(kind uint16, value []byte) error {
	if kind == nl.IFLA_VF_VLAN_INFO && len(value) >= 14 {
		v.VLAN = &VFVLAN{
			ID: binary.NativeEndian.Uint32(value[4:8]), QoS: binary.NativeEndian.Uint32(value[8:12]),
			Protocol: binary.BigEndian.Uint16(value[12:14]),
		}
	}
	return nil
}

// flag is nil for what a driver says nothing of: the kernel fills in -1
// (net/core/rtnetlink.c, rtnl_fill_vfinfo).
func flag(n uint32) *bool {
	if n > 1 {
		return nil
	}
	return ptrTo(n == 1)
}

func ptrTo[T any](v T) *T { return &v }

// SetVF changes settings of a virtual function through its physical one's link. The
// kernel sets them one after the other: after an error some may be set.
func (c *Conn) SetVF(index, number int, s VFSettings) error {
	attributes, err := s.attributes(uint32(number))
	if err != nil || s.None() {
		return err
	}
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = int32(index)
	if err := c.change(unix.RTM_SETLINK, 0, header, attributes); err != nil {
		return fmt.Errorf("change virtual function %d of link %d: %w", number, index, err)
	}
	return nil
}

func (s VFSettings) attributes(number uint32) (*nl.RtAttr, error) {
	list := nl.NewRtAttr(unix.IFLA_VFINFO_LIST|unix.NLA_F_NESTED, nil)
	info := list.AddRtAttr(nl.IFLA_VF_INFO|unix.NLA_F_NESTED, nil)
	if s.MAC != nil {
		address, err := net.ParseMAC(*s.MAC)
		if err != nil || len(address) != 6 {
			return nil, fmt.Errorf("%q is no Ethernet address", *s.MAC)
		}
		info.AddRtAttr(nl.IFLA_VF_MAC, append(words(number), append(address, make([]byte, 32-len(address))...)...))
	}
	if v := s.VLAN; v != nil {
		tag := binary.BigEndian.AppendUint16(words(number, v.ID, v.QoS), v.Protocol)
		tag = append(tag, 0, 0) // the structure's size is of whole words
		info.AddRtAttr(nl.IFLA_VF_VLAN_LIST|unix.NLA_F_NESTED, nil).AddRtAttr(nl.IFLA_VF_VLAN_INFO, tag)
	}
	if s.Rate != nil {
		info.AddRtAttr(nl.IFLA_VF_RATE, words(number, s.Rate.Min, s.Rate.Max))
	}
	if s.SpoofCheck != nil {
		info.AddRtAttr(nl.IFLA_VF_SPOOFCHK, words(number, bit(*s.SpoofCheck)))
	}
	if s.Trust != nil {
		info.AddRtAttr(nl.IFLA_VF_TRUST, words(number, bit(*s.Trust)))
	}
	return list, nil
}

func words(of ...uint32) []byte {
	var b []byte
	for _, w := range of {
		b = binary.NativeEndian.AppendUint32(b, w)
	}
	return b
}

func bit(set bool) uint32 {
	if set {
		return 1
	}
	return 0
}
