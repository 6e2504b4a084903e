// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package side

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
			links:   []rtnl.Link{hardware("p0", one, "", macA), hardware("p1", one, "", macB)},
			refused: "interfaces p0 and p1 could both be PCI function " + one,
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
			refused: "could both be the NIC with MAC " + macA,
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
			id:    IdentityOf(nic(t, "", "", "", macA, "veth"), word(given)).Named("nic0"),
			links: []rtnl.Link{virtual("other", "veth", given)},
		},
		"the given MAC under the NIC's name": {
			id:    IdentityOf(nic(t, "", "", "", macA, "veth"), word(given)).Named("nic0"),
			links: []rtnl.Link{virtual("nic0", "veth", given)},
			want:  "nic0",
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
