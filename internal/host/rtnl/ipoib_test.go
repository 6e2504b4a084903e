// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ipoibMessage is the message of an IPoIB interface as the kernel sends it, whose
// IFLA_INFO_DATA has 16-bit numbers (drivers/infiniband/ulp/ipoib/ipoib_netlink.c,
// ipoib_fill_info). A child names its parent's ifindex; only a parent is a device's.
func ipoibMessage(name string, at int32, pkey uint16, parent uint32, address []byte) []byte {
	const pkeyOf, mode, umcast = 1, 2, 3 // IFLA_IPOIB_* (include/uapi/linux/if_link.h)
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index, header.Type, header.Flags = at, unix.ARPHRD_INFINIBAND, unix.IFF_UP
	body := header.Serialize()
	add := func(kind int, value []byte) { body = append(body, nl.NewRtAttr(kind, value).Serialize()...) }
	add(unix.IFLA_IFNAME, nl.ZeroTerminated(name))
	add(unix.IFLA_OPERSTATE, []byte{6})
	add(unix.IFLA_MTU, nl.Uint32Attr(2044))
	add(unix.IFLA_ADDRESS, address)
	if parent != 0 {
		add(unix.IFLA_LINK, nl.Uint32Attr(parent))
	} else {
		add(unix.IFLA_PARENT_DEV_NAME, nl.ZeroTerminated("0000:11:00.0"))
		add(unix.IFLA_PARENT_DEV_BUS_NAME, nl.ZeroTerminated("pci"))
	}
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(unix.IFLA_INFO_KIND, nl.ZeroTerminated("ipoib"))
	data := info.AddRtAttr(unix.IFLA_INFO_DATA, nil)
	data.AddRtAttr(pkeyOf, nl.Uint16Attr(pkey))
	data.AddRtAttr(mode, nl.Uint16Attr(0))
	data.AddRtAttr(umcast, nl.Uint16Attr(1))
	return append(body, info.Serialize()...)
}

// TestIPoIB has both interfaces of an HCA with a second partition: the child of the
// PKey stands on the other by IFLA_LINK, and nothing of the kind's data names a link.
func TestIPoIB(t *testing.T) {
	address := []byte{0x80, 0, 0x10, 0x27, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x7c, 0xfe, 0x90, 0x03, 0, 0x2b, 0xc4, 0xfa}
	const written = "80:00:10:27:fe:80:00:00:00:00:00:00:7c:fe:90:03:00:2b:c4:fa"
	type want struct {
		Name, Encapsulation, Kind, MAC, Bus, BusAddress string
		MTU                                             int
		Lower                                           []int
	}
	for _, tt := range []struct {
		message []byte
		want    want
	}{
		{
			ipoibMessage("ib0", 7, 0xffff, 0, address),
			want{Name: "ib0", Encapsulation: "infiniband", Kind: "ipoib", MAC: written, MTU: 2044, Bus: "pci", BusAddress: "0000:11:00.0"},
		},
		{
			ipoibMessage("ib0.8001", 8, 0x8001, 7, address),
			want{Name: "ib0.8001", Encapsulation: "infiniband", Kind: "ipoib", MAC: written, MTU: 2044, Lower: []int{7}},
		},
	} {
		l, err := parseLink(tt.message)
		if err != nil {
			t.Fatal(err)
		}
		got := want{Name: l.Name, Encapsulation: l.Encapsulation, Lower: l.Lower}
		for into, from := range map[*string]*string{&got.Kind: l.Kind, &got.MAC: l.MAC, &got.Bus: l.Bus, &got.BusAddress: l.BusAddress} {
			if from != nil {
				*into = *from
			}
		}
		if l.MTU != nil {
			got.MTU = *l.MTU
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || !l.Up || l.VRFTable != nil || l.Master != nil {
			t.Errorf("%s: %+v (-want +got):\n%s", tt.want.Name, l, diff)
		}
	}
}
