// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nslink

import (
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// hardware is a link of a PCI function.
func hardware(name, pci, permanent, mac string) rtnl.Link {
	return rtnl.Link{Name: name, Bus: new("pci"), BusAddress: &pci, PermanentMAC: word(permanent), MAC: word(mac)}
}

func virtual(name, kind, mac string) rtnl.Link {
	return rtnl.Link{Name: name, Kind: word(kind), MAC: word(mac)}
}

// at is a virtual link with an ifindex.
func at(index int, name, kind, mac string) rtnl.Link {
	l := virtual(name, kind, mac)
	l.Index = index
	return l
}

// seenAt is a NIC that had an ifindex.
func seenAt(n model.NIC, index int) model.NIC {
	n.Interface.Index = index
	return n
}

// port is a link of a PCI function with a port name, as in switchdev mode.
func port(name, pci, portName string) rtnl.Link {
	l := hardware(name, pci, "02:00:00:00:00:0c", "02:00:00:00:00:0c")
	l.PortName = &portName
	return l
}

// ipoib is an InfiniBand interface, which stands on another when it is a child.
func ipoib(name string, index int, below ...int) rtnl.Link {
	l := hardware(name, "0000:11:00.0", "", "80:00:00:00:00:0"+string(rune('0'+index)))
	l.Kind, l.Index, l.Lower = word("ipoib"), index, below
	return l
}

func word(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func nic(t *testing.T, pci, port, permanent, mac, kind string) model.NIC {
	t.Helper()
	n := model.NIC{Port: word(port), Interface: &model.Interface{PermanentMAC: word(permanent), MAC: word(mac), Kind: word(kind)}}
	if pci != "" {
		address, err := model.ParsePCIAddress(pci)
		if err != nil {
			t.Fatal(err)
		}
		n.PCI = &address
	}
	return n
}

// A NIC is found by what stays, and not mistaken for another.
func TestFind(t *testing.T) {
	const (
		one, two   = "0000:11:00.0", "0000:12:00.0"
		macA, macB = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
		given      = "02:00:00:00:00:99"
	)
	for name, c := range map[string]struct {
		id    Identity
		links []rtnl.Link
		// want is the name of the link found, none where it is empty; refused is
		// part of the error.
		want, refused string
	}{
		"by its function, whatever it is called": {
			id:    IdentityOf(nic(t, one, "", macA, macA, ""), nil),
			links: []rtnl.Link{hardware("eth0", two, macB, macB), hardware("dev7", one, macA, given)},
			want:  "dev7",
		},
		"by its permanent MAC, where the kernel does not say the function": {
			id:    IdentityOf(nic(t, one, "", macA, macA, ""), nil),
			links: []rtnl.Link{{Name: "eth0", PermanentMAC: word(macB)}, {Name: "eth1", PermanentMAC: word(macA)}},
			want:  "eth1",
		},
		"by its function, where it has no permanent MAC": {
			id:    IdentityOf(nic(t, one, "", "", macA, ""), nil),
			links: []rtnl.Link{hardware("eth0", one, "", given)},
			want:  "eth0",
		},
		"the first of two interfaces of a function": {
			id:    IdentityOf(nic(t, one, "", macA, macA, ""), nil),
			links: []rtnl.Link{hardware("p1", one, macB, macB), hardware("p0", one, macA, macA)},
			want:  "p0",
		},
		"the second of two interfaces of a function": {
			id:    IdentityOf(nic(t, one, "p1", macB, macB, ""), nil),
			links: []rtnl.Link{hardware("p0", one, macA, macA), hardware("p1", one, macB, macB)},
			want:  "p1",
		},
		"the second of two interfaces, which alone is here": {
			id:    IdentityOf(nic(t, one, "p1", macB, macB, ""), nil),
			links: []rtnl.Link{hardware("p0", one, macA, macA)},
		},
		"the second of two interfaces without permanent MACs": {
			id:    IdentityOf(nic(t, one, "p1", "", macB, ""), nil),
			links: []rtnl.Link{hardware("p0", one, "", macA), hardware("p1", one, "", macB)},
			want:  "p1",
		},
		"two interfaces that nothing tells apart": {
			id:      IdentityOf(nic(t, one, "", "", macA, ""), nil),
			links:   []rtnl.Link{hardware("p0", one, "", given), hardware("p1", one, "", macB)},
			refused: "interfaces p0, p1 could all be PCI function " + one,
		},
		"another function with the same burned-in address": {
			id:    IdentityOf(nic(t, one, "", macA, macA, ""), nil),
			links: []rtnl.Link{hardware("rep0", two, macA, macA)},
		},
		"a virtual link on top, which has the NIC's MAC": {
			id:    IdentityOf(nic(t, one, "", macA, macA, ""), nil),
			links: []rtnl.Link{virtual("vlan7", "vlan", macA), hardware("eth0", one, macA, macA)},
			want:  "eth0",
		},
		"a virtual NIC by its MAC": {
			id:    IdentityOf(nic(t, "", "", "", macA, "veth"), nil),
			links: []rtnl.Link{virtual("a", "veth", macB), virtual("b", "veth", macA)},
			want:  "b",
		},
		"a virtual NIC of another kind": {
			id:    IdentityOf(nic(t, "", "", "", macA, "veth"), nil),
			links: []rtnl.Link{virtual("a", "macvlan", macA)},
		},
		"two virtual links with one MAC": {
			id:      IdentityOf(nic(t, "", "", "", macA, "veth"), nil),
			links:   []rtnl.Link{virtual("a", "veth", macA), virtual("b", "veth", macA)},
			refused: "interfaces a, b could all be the NIC with MAC " + macA,
		},
		"by the MAC that it was given": {
			id:    IdentityOf(nic(t, "", "", "", macA, "veth"), word(given)),
			links: []rtnl.Link{virtual("a", "veth", given)},
			want:  "a",
		},
		"its own MAC rather than the given one, which another has": {
			id:    IdentityOf(nic(t, "", "", "", macA, "veth"), word(given)),
			links: []rtnl.Link{virtual("other", "veth", given), virtual("a", "veth", macA)},
			want:  "a",
		},
		"the given MAC under another name than the NIC's": {
			id:    IdentityOf(nic(t, "", "", "", macA, "veth"), word(given)).OnHost("nic0", 7),
			links: []rtnl.Link{virtual("other", "veth", given)},
		},
		"the given MAC under the NIC's name": {
			id:    IdentityOf(nic(t, "", "", "", macA, "veth"), word(given)).OnHost("nic0", 7),
			links: []rtnl.Link{virtual("nic0", "veth", given)},
			want:  "nic0",
		},
		"a VF whose permanent MAC changed": {
			id:    IdentityOf(nic(t, one, "", macA, macA, ""), nil).Alone(true),
			links: []rtnl.Link{hardware("eth0", two, macB, macB), hardware("dev7", one, given, given)},
			want:  "dev7",
		},
		"a VF whose permanent MAC changed to another's": {
			id:    IdentityOf(nic(t, one, "", macA, macA, ""), nil).Alone(true),
			links: []rtnl.Link{hardware("eth0", two, macA, macA), hardware("dev7", one, macB, macB)},
			want:  "dev7",
		},
		"a function that is not here, whose MAC another has now": {
			id:    IdentityOf(nic(t, one, "", macA, macA, ""), nil).Alone(true),
			links: []rtnl.Link{hardware("eth0", two, macA, macA)},
		},
		"by its permanent MAC among several of a function that had one interface": {
			id:    IdentityOf(nic(t, one, "", macA, macA, ""), nil).Alone(true),
			links: []rtnl.Link{hardware("p1", one, macB, macA), hardware("p0", one, macA, given)},
			want:  "p0",
		},
		"a changed permanent MAC where the function has several interfaces": {
			id:    IdentityOf(nic(t, one, "", macA, macA, ""), nil),
			links: []rtnl.Link{hardware("p1", one, macB, macB)},
		},
		"a physical function beside its representors": {
			id:    IdentityOf(nic(t, one, "", macA, macA, ""), nil).Alone(true),
			links: []rtnl.Link{port("rep0", one, "pf0vf0"), port("sf0", one, "c1pf0sf2"), port("pf", one, "p0")},
			want:  "pf",
		},
		"a representor alone": {
			id:    IdentityOf(nic(t, one, "", macA, macA, ""), nil).Alone(true),
			links: []rtnl.Link{port("rep0", one, "pf0vf0")},
		},
		"an InfiniBand parent beside its child, both of one kind and function": {
			id:    IdentityOf(nic(t, one, "", "", macA, "ipoib"), nil).Alone(true),
			links: []rtnl.Link{ipoib("ib0.8001", 8, 7), ipoib("ib0", 7)},
			want:  "ib0",
		},
		"the ifindex seen last among virtual links with one MAC": {
			id:    IdentityOf(seenAt(nic(t, "", "", "", macA, "ipvlan"), 8), nil),
			links: []rtnl.Link{at(7, "a", "ipvlan", macA), at(8, "b", "ipvlan", macA), at(9, "c", "ipvlan", macA)},
			want:  "b",
		},
		"by its name among links with one MAC and other ifindexes": {
			id:    IdentityOf(seenAt(nic(t, "", "", "", macA, "ipvlan"), 5), nil).Named("net1"),
			links: []rtnl.Link{at(7, "net0", "ipvlan", macA), at(8, "net1", "ipvlan", macA)},
			want:  "net1",
		},
		"its ifindex rather than its name": {
			id:    IdentityOf(seenAt(nic(t, "", "", "", macA, "ipvlan"), 7), nil).Named("net1"),
			links: []rtnl.Link{at(7, "net0", "ipvlan", macA), at(8, "net1", "ipvlan", macA)},
			want:  "net0",
		},
		"its own MAC rather than the ifindex of one with the given MAC": {
			id:    IdentityOf(seenAt(nic(t, "", "", "", macA, "veth"), 8), word(given)),
			links: []rtnl.Link{at(7, "a", "veth", macA), at(8, "b", "veth", given)},
			want:  "a",
		},
		"on the host by its name, with a new ifindex": {
			id:    IdentityOf(nic(t, "", "", "", macA, "ipvlan"), nil).OnHost("nic0", 5),
			links: []rtnl.Link{at(7, "nic0", "ipvlan", macA), at(8, "nic1", "ipvlan", macA)},
			want:  "nic0",
		},
		"on the host by its ifindex, under a new name": {
			id:    IdentityOf(nic(t, "", "", "", macA, "ipvlan"), nil).OnHost("nic0", 7),
			links: []rtnl.Link{at(7, "dev3", "ipvlan", macA), at(8, "nic1", "ipvlan", macA)},
			want:  "dev3",
		},
		"on the host another with the same MAC": {
			id:    IdentityOf(nic(t, "", "", "", macA, "ipvlan"), nil).OnHost("nic0", 7),
			links: []rtnl.Link{at(8, "nic1", "ipvlan", macA)},
		},
		"hardware without function, which the kernel gave another name": {
			id:    IdentityOf(nic(t, "", "", macA, macA, ""), nil).OnHost("usb0", 7),
			links: []rtnl.Link{{Name: "dev9", Index: 9, PermanentMAC: word(macA), MAC: word(macB)}},
			want:  "dev9",
		},
		"what has neither function nor MAC": {
			id:    IdentityOf(model.NIC{}, nil),
			links: []rtnl.Link{virtual("tun0", "tun", ""), hardware("eth0", one, macA, macA)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			link, err := c.id.Find(c.links)
			switch {
			case c.refused != "":
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("error %v, want %s", err, c.refused)
				}
			case err != nil:
				t.Error(err)
			case c.want == "" && link != nil || c.want != "" && (link == nil || link.Name != c.want):
				t.Errorf("found %+v, want %q", link, c.want)
			}
		})
	}
}
