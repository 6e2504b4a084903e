// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// links reads "3 bond0 kind=bond uplink=..." lines: ifindex, name and facts.
// master= is an ifindex, lower= are some; uplink takes the rest of the line.
func links(t *testing.T, text string) []LinkFacts {
	t.Helper()
	var list []LinkFacts
	for line := range strings.Lines(strings.TrimSpace(text)) {
		var l LinkFacts
		line, uplink, found := strings.Cut(strings.TrimSpace(line), " uplink=")
		if found {
			l.Uplink = &uplink
		}
		words := strings.Fields(line)
		l.Index = number(t, words[0])
		l.Name = words[1]
		for _, w := range words[2:] {
			key, value, _ := strings.Cut(w, "=")
			switch key {
			case "kind":
				l.Kind = &value
			case "master":
				l.Master = new(number(t, value))
			case "lower":
				for index := range strings.SplitSeq(value, ",") {
					l.Lower = append(l.Lower, number(t, index))
				}
			default:
				t.Fatalf("links: unknown fact %q", w)
			}
		}
		list = append(list, l)
	}
	return list
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestProtect(t *testing.T) {
	for _, tt := range []struct{ name, links, want string }{
		{
			name:  "the default route on the hardware itself",
			links: "2 eth0 uplink=carries the default route\n3 eth1",
			want:  "2 carries the default route\n",
		},
		{
			name: "a VLAN on a bond of two ports",
			links: `2 eth0 master=4
				3 eth1 master=4
				4 bond0 kind=bond
				5 bond0.100 kind=vlan lower=4 uplink=carries the default route
				6 eth2`,
			want: `2 is a port of bond0, which carries the default route
3 is a port of bond0, which carries the default route
4 lies below bond0.100, which carries the default route
5 carries the default route
`,
		},
		{
			name: "a bridge that nobody routes through",
			links: `2 eth0 master=3
				3 br0 kind=bridge
				4 eth1`,
			want: "2 is a port of br0\n3 is a bridge\n",
		},
		{
			name:  "a port of a VRF is free",
			links: "2 eth0 master=3\n3 red kind=vrf",
		},
		{
			name:  "a master that is not to be seen",
			links: "2 eth0 master=9",
			want:  "2 is a port of a link in another network namespace\n",
		},
		{
			name: "a virtual function under a Hyper-V interface",
			links: `2 eth0 uplink=owns the node's address 10.0.0.4
				3 enP1s1 master=2`,
			want: "2 owns the node's address 10.0.0.4\n3 is a port of eth0, which owns the node's address 10.0.0.4\n",
		},
		{
			name:  "a macvlan's parent",
			links: "2 eth0\n3 mv0 kind=macvlan lower=2\n4 mv1 kind=macvlan lower=2",
			want:  "2 carries macvlan mv0, which would go with it\n",
		},
		{
			name:  "the parent of a network plugin's VXLAN",
			links: "2 eth0 uplink=carries the default route\n3 eth1\n4 flannel.1 kind=vxlan lower=3",
			want: `2 carries the default route
3 carries vxlan flannel.1, which would go with it
4 belongs to flannel
`,
		},
		{
			name: "a ring of two ports, which the node needs",
			links: `2 eth0
				3 eth1
				4 hsr0 kind=hsr lower=2,3 uplink=carries the default route`,
			want: `2 lies below hsr0, which carries the default route
3 lies below hsr0, which carries the default route
4 carries the default route
`,
		},
		{
			name:  "something without a kind on top",
			links: "2 eth0\n3 odd0 lower=2",
			want:  "2 carries link odd0, which would go with it\n",
		},
		{
			name:  "links of network plugins",
			links: "2 cali1234 kind=veth\n3 cilium_host kind=veth\n4 flannel.1 kind=vxlan\n5 kube-ipvs0 kind=dummy\n6 dummy0 kind=dummy",
			want:  "2 belongs to Calico\n3 belongs to Cilium\n4 belongs to flannel\n5 belongs to kube-proxy\n",
		},
		{
			name:  "a loop of masters",
			links: "2 a master=3 kind=bridge\n3 b master=2 kind=bridge uplink=carries the default route",
			want:  "2 is a port of b, which carries the default route\n3 carries the default route\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := links(t, tt.links)
			for range 2 { // the order of the dump makes no difference
				got := protect(list)
				var text strings.Builder
				for index := range 10 {
					if reason, ok := got[index]; ok {
						fmt.Fprintf(&text, "%d %s\n", index, reason)
					}
				}
				if diff := cmp.Diff(tt.want, text.String()); diff != "" {
					t.Errorf("reasons (-want +got):\n%s", diff)
				}
				slices.Reverse(list)
			}
		})
	}
}
