// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// linkMessage are the attributes of a link's message that name other links; its own ifindex is
// 7.
type linkMessage struct {
	kind            string
	link, elsewhere bool           // IFLA_LINK is 3, IFLA_LINK_NETNSID is there
	self            bool           // IFLA_LINK is 7
	data            map[uint16]int // of IFLA_INFO_DATA
	master          bool           // IFLA_MASTER is 9
}

func (m linkMessage) message() []byte {
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = 7
	attribute := func(kind, value int) []byte { return nl.NewRtAttr(kind, nl.Uint32Attr(uint32(value))).Serialize() }
	body := append(header.Serialize(), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated("nic0")).Serialize()...)
	if m.master {
		body = append(body, attribute(unix.IFLA_MASTER, 9)...)
	}
	if m.link {
		body = append(body, attribute(unix.IFLA_LINK, 3)...)
	}
	if m.self {
		body = append(body, attribute(unix.IFLA_LINK, 7)...)
	}
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	if m.kind != "" {
		info.AddRtAttr(unix.IFLA_INFO_KIND, nl.NonZeroTerminated(m.kind))
	}
	if m.data != nil {
		data := info.AddRtAttr(unix.IFLA_INFO_DATA, nil)
		for kind, value := range m.data {
			data.AddRtAttr(int(kind), nl.Uint32Attr(uint32(value)))
		}
	}
	body = append(body, info.Serialize()...)
	if m.elsewhere {
		body = append(body, attribute(unix.IFLA_LINK_NETNSID, 0)...)
	}
	return body
}

// TestLowerOfEveryKind has every kind of link that Linux 6.18 has (struct
// rtnl_link_ops), with what its driver tells of the links below it.
func TestLowerOfEveryKind(t *testing.T) {
	below, none := []int{3}, []int(nil)
	// By IFLA_LINK, which the kernel asks a driver's ndo_get_iflink for.
	for _, kind := range []string{
		"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "macsec", "ipoib", "rmnet", "virt_wifi", "lowpan", "dsa", "xfrm",
		"gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ip6erspan", "ipip", "sit", "vti", "vti6", "ip6tnl",
	} {
		expectLower(t, linkMessage{kind: kind, link: true}, below)
		expectLower(t, linkMessage{kind: kind, link: true, elsewhere: true}, none)
		expectLower(t, linkMessage{kind: kind, self: true}, none)
		expectLower(t, linkMessage{kind: kind}, none)
	}
	// By an attribute of their own.
	for _, m := range []linkMessage{
		{kind: "vxlan", data: map[uint16]int{1: 42, unix.IFLA_VXLAN_LINK: 3, 5: 64}},
		{kind: "amt", data: map[uint16]int{1: 1, 4: 3}},
		{kind: "hsr", data: map[uint16]int{unix.IFLA_HSR_SLAVE1: 3}},
		{kind: "dsa", data: map[uint16]int{unix.IFLA_DSA_CONDUIT: 3}},
		{kind: "dsa", link: true, data: map[uint16]int{unix.IFLA_DSA_CONDUIT: 3}},
	} {
		expectLower(t, m, below)
		m.elsewhere = true
		expectLower(t, m, none)
	}
	expectLower(t, linkMessage{kind: "hsr", data: map[uint16]int{
		unix.IFLA_HSR_SLAVE1: 5, unix.IFLA_HSR_SLAVE2: 3, unix.IFLA_HSR_INTERLINK: 4,
	}}, []int{3, 4, 5})
	expectLower(t, linkMessage{kind: "vxlan", data: map[uint16]int{unix.IFLA_VXLAN_LINK: 0}}, none)
	// The same numbers mean something else in other kinds' data.
	expectLower(t, linkMessage{kind: "geneve", data: map[uint16]int{unix.IFLA_VXLAN_LINK: 3}}, none)
	// IFLA_LINK is the other end, which stays.
	for _, kind := range []string{"veth", "vxcan", "netkit"} {
		expectLower(t, linkMessage{kind: kind, link: true}, none)
	}
	// The links below say it by IFLA_MASTER.
	for _, kind := range []string{"bridge", "bond", "team", "vrf", "batadv", "openvswitch"} {
		expectLower(t, linkMessage{kind: kind, data: map[uint16]int{1: 3, 3: 3, 4: 3}}, none)
	}
	l, err := parseLink(linkMessage{master: true}.message())
	if err != nil || l.Master == nil || *l.Master != 9 || l.Lower != nil {
		t.Errorf("a port: %+v, %v", l, err)
	}
	// Nothing below: sockets, software, or hardware.
	for _, kind := range []string{
		"", "dummy", "ifb", "nlmon", "vsockmon", "netdevsim", "tun", "wireguard", "ovpn", "geneve", "bareudp", "gtp", "pfcp",
		"ppp", "can", "vcan", "caif", "wwan",
	} {
		expectLower(t, linkMessage{kind: kind, data: map[uint16]int{1: 3, 2: 3, 3: 3, 4: 3}}, none)
	}
}

func expectLower(t *testing.T, m linkMessage, want []int) {
	t.Helper()
	l, err := parseLink(m.message())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(l.Lower, want) {
		t.Errorf("%+v stands on %v, want %v", m, l.Lower, want)
	}
}

// TestLowerInTheKernel makes links of the kinds that this kernel has, on one
// named below, and finds that out from what the kernel says.
func TestLowerInTheKernel(t *testing.T) {
	const ipv4, ipv6 = " remote 192.0.2.1 local 192.0.2.2", " remote 2001:db8::1 local 2001:db8::2"
	for _, c := range []struct {
		kind, add string // add makes x
		want      string // below, master or none
		missing   bool   // also from the virtual machine's kernel
	}{
		{kind: "vxlan", add: "link add x type vxlan id 7 dstport 4789 remote 192.0.2.1 dev below", want: "below"},
		{kind: "vxlan", add: "link add x type vxlan id 7 dstport 4789 group 239.1.1.1 dev below", want: "below"},
		{kind: "vxlan", add: "link add x type vxlan id 7 dstport 4789 remote 192.0.2.1", want: "none"},
		{kind: "vxlan", add: "link add x type vxlan external dstport 4789", want: "none"},
		{kind: "vlan", add: "link add link below name x type vlan id 7", want: "below"},
		{kind: "macvlan", add: "link add link below name x type macvlan mode bridge", want: "below"},
		{kind: "macvtap", add: "link add link below name x type macvtap mode bridge", want: "below"},
		{kind: "ipvlan", add: "link add link below name x type ipvlan mode l2", want: "below"},
		{kind: "ipvtap", add: "link add link below name x type ipvtap mode l2", want: "below"},
		{kind: "macsec", add: "link add link below name x type macsec", want: "below"},
		{kind: "gre", add: "link add x type gre dev below" + ipv4, want: "below"},
		{kind: "gre", add: "link add x type gre" + ipv4, want: "none"},
		{kind: "gretap", add: "link add x type gretap dev below" + ipv4, want: "below"},
		{kind: "erspan", add: "link add x type erspan seq key 30 erspan_ver 1 erspan 123 dev below" + ipv4, want: "below"},
		{kind: "ip6gre", add: "link add x type ip6gre dev below" + ipv6, want: "below"},
		{kind: "ip6gretap", add: "link add x type ip6gretap dev below" + ipv6, want: "below"},
		{kind: "ip6erspan", add: "link add x type ip6erspan seq key 30 erspan_ver 1 erspan 123 dev below" + ipv6, want: "below"},
		{kind: "ipip", add: "link add x type ipip dev below" + ipv4, want: "below"},
		{kind: "ipip", add: "link add x type ipip" + ipv4, want: "none"},
		{kind: "sit", add: "link add x type sit dev below" + ipv4, want: "below"},
		{kind: "vti", add: "link add x type vti key 7 dev below" + ipv4, want: "below"},
		{kind: "vti6", add: "link add x type vti6 key 7 dev below" + ipv6, want: "below"},
		{kind: "ip6tnl", add: "link add x type ip6tnl dev below" + ipv6, want: "below"},
		{kind: "xfrm", add: "link add x type xfrm dev below if_id 7", want: "below"},
		{kind: "amt", add: "link add x type amt mode gateway local 192.0.2.2 discovery 192.0.2.1 dev below", want: "below", missing: true},
		{kind: "hsr", add: "link add x type hsr slave1 below slave2 other", want: "below", missing: true},
		{kind: "bareudp", add: "link add x type bareudp dstport 6635 ethertype mpls_uc", want: "none", missing: true},
		{kind: "geneve", add: "link add x type geneve id 7 remote 192.0.2.1", want: "none"},
		{kind: "bridge", add: "link add x type bridge\nlink set below master x", want: "master"},
		{kind: "bond", add: "link add x type bond\nlink set below master x", want: "master"},
		{kind: "team", add: "link add x type team\nlink set below master x", want: "master"},
		{kind: "vrf", add: "link add x type vrf table 77\nlink set below master x", want: "master"},
		{kind: "batadv", add: "link add x type batadv\nlink set below master x", want: "master"},
		{kind: "veth", add: "link add x type veth peer name y", want: "none"},
		{kind: "vxcan", add: "link add x type vxcan peer name y", want: "none"},
		{kind: "netkit", add: "link add x type netkit", want: "none", missing: true},
		{kind: "vcan", add: "link add x type vcan", want: "none"},
		{kind: "dummy", add: "link add x type dummy", want: "none"},
		{kind: "ifb", add: "link add x type ifb", want: "none"},
		{kind: "nlmon", add: "link add x type nlmon", want: "none"},
		{kind: "wireguard", add: "link add x type wireguard", want: "none"},
		{kind: "tun", add: "tuntap add x mode tap", want: "none"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			ns := hosttest.NewNamespace(t)
			ns.Run(t, "ip link add below type veth peer name other")
			addLink(t, ns, c.add, c.missing)
			links, err := dialIn(t, ns).Links()
			if err != nil {
				t.Fatal(err)
			}
			find := func(name string) Link {
				i := slices.IndexFunc(links, func(l Link) bool { return l.Name == name })
				if i < 0 {
					t.Fatalf("no link %s among %+v", name, links)
				}
				return links[i]
			}
			x, below := find("x"), find("below")
			if x.Kind == nil || *x.Kind != c.kind {
				t.Fatalf("made %+v", x)
			}
			if on := slices.Contains(x.Lower, below.Index); on != (c.want == "below") || !on && x.Lower != nil {
				t.Errorf("stands on %v, want %s; below is %d", x.Lower, c.want, below.Index)
			}
			if port := below.Master != nil && *below.Master == x.Index; port != (c.want == "master") {
				t.Errorf("below has master %v, want %s; x is %d", below.Master, c.want, x.Index)
			}
		})
	}
}

// addLink runs lines of ip, and skips the test where the kernel lacks the kind:
// the virtual machine's must have it unless it is missing there.
func addLink(t *testing.T, ns *hosttest.Namespace, lines string, missing bool) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var out []byte
		var err error
		ns.Do(t, func() error {
			out, err = exec.CommandContext(t.Context(), "ip", strings.Fields(line)...).CombinedOutput()
			return nil
		})
		lacks := strings.Contains(string(out), "Unknown device type") || strings.Contains(string(out), "not supported") ||
			strings.Contains(string(out), "Not supported")
		switch {
		case err == nil:
		case lacks && (missing || !hosttest.OnGuest()):
			t.Skipf("ip %s: %s: this kernel has no such links", strings.TrimSpace(line), strings.TrimSpace(string(out)))
		default:
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
}
