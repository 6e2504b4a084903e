// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/hosttest"
)

// states is all that the driver knows of the host's NICs, sysctls and features
// among it.
func (l *lab) states(t *testing.T) string {
	t.Helper()
	var all []any
	for _, nic := range l.machine(t).NICs {
		seen, err := readOne(l.driver, nslink.IdentityOf(nic, nil))
		if err != nil {
			t.Fatal(err)
		}
		seen.State.Index = 0
		for i := range seen.State.Routes {
			seen.State.Routes[i].Message, seen.State.Routes[i].Others = nil, nil // indexes of other links
		}
		all = append(all, seen.State)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// cycle takes NICs into a pod, lets the caller look, and brings them back. The
// host must then be what it was.
func (l *lab) cycle(t *testing.T, c driver.Claim, inside func(pod *hosttest.Namespace, r driver.Record, s []driver.DeviceStatus)) {
	t.Helper()
	pod := hosttest.NewNamespace(t)
	// A new namespace forwards where the first one does (devconf_inherit_init_net).
	pod.Run(t, quiet+"\nsysctl -q -w net.ipv4.ip_forward=0")
	before, states, empty, rules := look(t, l.host), l.states(t), look(t, pod), rulesOf(t, pod)
	r := l.plan(t, c)
	r, err := l.driver.Stage(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	statuses := l.attach(t, r, pod)
	inside(pod, r, statuses)
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Error(err)
	}
	if err := l.driver.Unstage(t.Context(), r); err != nil {
		t.Error(err)
	}
	expect(t, "the host", before, l.host)
	expect(t, "the pod after it", empty, pod)
	if diff := cmp.Diff(rules, rulesOf(t, pod)); diff != "" {
		t.Errorf("the pod's rules after it (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(states, l.states(t)); diff != "" {
		t.Errorf("the host's NICs (-before +after):\n%s", diff)
	}
}

// rulesOf leaves out the rule that the kernel makes once, with a namespace's first VRF
// (drivers/net/vrf.c, vrf_newlink): it must stay for further VRFs.
func rulesOf(t *testing.T, ns *hosttest.Namespace) string {
	t.Helper()
	var rules strings.Builder
	for line := range strings.Lines(ns.Run(t, "ip -4 rule show\nip -6 rule show")) {
		if !strings.Contains(line, "l3mdev") {
			rules.WriteString(line)
		}
	}
	return rules.String()
}

// Each field takes effect in the pod, and is undone.
func TestEachField(t *testing.T) {
	for _, c := range []struct {
		name, host, parameters string
		// show is what to run in the pod, want what it must print.
		show string
		want []string
	}{
		{"hardwareAddr", "", `{"interface": {"hardwareAddr": "02-00-00-00-AA-01"}}`,
			"ip link show nic0", []string{"link/ether 02:00:00:00:aa:01"}},
		{"addresses", busy, `{"interface": {"addresses": ["10.77.0.2/24", "fd77::2/64"]}}`,
			"ip address show nic0", []string{"inet 10.77.0.2/24 brd 10.77.0.255 scope global nic0", "inet6 fd77::2/64 scope global nodad"}},
		{"mtu", "", `{"interface": {"mtu": 9000}}`, "ip link show nic0", []string{"mtu 9000"}},
		{"sizes", "", `{"interface": {"gsoMaxSize": 180000, "groMaxSize": 180000}}`,
			"ip -d link show nic0", []string{"gso_max_size 180000", "gro_max_size 180000"}},
		{"forwarding", "", `{"interface": {"forwarding": true}}`,
			"sysctl net.ipv4.conf.nic0.forwarding net.ipv6.conf.nic0.forwarding net.ipv4.conf.lo.forwarding",
			[]string{"ipv4.conf.nic0.forwarding = 1", "ipv6.conf.nic0.forwarding = 1", "lo.forwarding = 0"}},
		{"no forwarding", "sysctl -q -w net.ipv4.conf.nic0.forwarding=1", `{"interface": {"forwarding": false}}`,
			"sysctl net.ipv4.conf.nic0.forwarding net.ipv6.conf.nic0.forwarding", []string{"ipv4.conf.nic0.forwarding = 0", "ipv6.conf.nic0.forwarding = 0"}},
		{"arp", "sysctl -q -w net.ipv4.conf.nic0.arp_ignore=2 net.ipv4.conf.nic0.rp_filter=2 net.ipv4.neigh.nic0.gc_stale_time=77",
			`{"interface": {"arpIgnore": 1, "arpAnnounce": 2}}`,
			"sysctl net.ipv4.conf.nic0.arp_ignore net.ipv4.conf.nic0.arp_announce", []string{"arp_ignore = 1", "arp_announce = 2"}},
		{"sysctls", "", `{"sysctls": {"net.ipv4.tcp_rmem": "4096 131073 6291457", "net.core.somaxconn": "4097",
			"net.ipv4.conf.default.arp_notify": "1", "net.ipv4.conf.nic0.arp_ignore": "2", "net.ipv4.neigh.nic0.gc_stale_time": "77"}}`,
			"sysctl net.ipv4.tcp_rmem net.core.somaxconn net.ipv4.conf.nic0.arp_notify net.ipv4.conf.nic0.arp_ignore net.ipv4.neigh.nic0.gc_stale_time",
			[]string{"tcp_rmem = 4096\t131073\t6291457", "somaxconn = 4097", "arp_notify = 1", "arp_ignore = 2", "gc_stale_time = 77"}},
		{"routes", "", `{"interface": {"addresses": ["10.44.0.2/32", "fd44::2/64"]}, "routes": [
			{"destination": "10.60.0.9/16", "gateway": "10.44.0.1", "source": "10.44.0.2", "metric": 50, "mtu": 1300},
			{"destination": "10.44.0.1/32", "scope": 253},
			{"destination": "10.61.0.0/16", "gateway": "192.0.2.1", "onlink": true, "table": 77},
			{"destination": "fd60::/48", "gateway": "fd44::1", "metric": 7}]}`,
			"ip route show table all", []string{
				"10.61.0.0/16 via 192.0.2.1 dev nic0 table 77", "onlink",
				"10.44.0.1 dev nic0", "scope link", "10.60.0.0/16 via 10.44.0.1 dev nic0", "src 10.44.0.2 metric 50 mtu 1300",
				"fd60::/48 via fd44::1 dev nic0", "metric 7"}},
		{"routes beside the host's", busy, `{"routes": [{"destination": "10.98.0.0/16", "gateway": "10.33.0.1"}, {"destination": "10.97.0.0/16", "gateway": "10.33.0.1"}]}`,
			"ip route show", []string{"10.33.0.1 dev nic0 proto static scope link", "10.97.0.0/16 via 10.33.0.1", "10.98.0.0/16 via 10.33.0.1 dev nic0"}},
		{"rules", "", `{"interface": {"addresses": ["10.44.0.2/24"]}, "rules": [
			{"priority": 900, "source": "10.44.0.0/16", "table": 77}, {"destination": "fd00::/8", "table": 78}]}`,
			"ip rule show\nip -6 rule show", []string{"900:	from 10.44.0.0/16 lookup 77", "to fd00::/8 lookup 78"}},
		{"the host's rules", busy + "\nip rule add from 10.44.0.0/24 lookup 77 pref 500", "",
			"ip rule show", []string{"500:	from 10.44.0.0/24 lookup 77"}},
		{"neighbors", busy, `{"neighbors": [{"ipAddress": "10.44.0.7", "hardwareAddr": "02:00:00:00:07:07"}, {"destination": "fd00::7", "hardwareAddr": "02:00:00:00:07:08"}]}`,
			"ip neighbour show nud permanent", []string{"10.44.0.7 dev nic0 lladdr 02:00:00:00:07:07", "10.44.0.9", "fd00::7 dev nic0 lladdr 02:00:00:00:07:08"}},
		{"nothing of the host's", busy, `{"routes": [], "neighbors": [], "rules": []}`,
			"ip route show", []string{"10.44.0.0/24 dev nic0 proto kernel scope link src 10.44.0.2"}},
		{"unnumbered", busy, `{"interface": {"addressing": "unnumbered", "name": "bare0"}}`, "ip link show bare0", []string{"UP"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.host.Run(t, c.host)
			l.cycle(t, claim(c.parameters, "nic0"), func(pod *hosttest.Namespace, _ driver.Record, _ []driver.DeviceStatus) {
				text := pod.Run(t, c.show)
				for _, want := range c.want {
					if !strings.Contains(text, want) {
						t.Errorf("%s lacks %q:\n%s", c.show, want, text)
					}
				}
			})
		})
	}
}

// Features belong to the device: they are set before the pod has a namespace,
// and are restored when the claim is unprepared.
func TestFeaturesAreStaged(t *testing.T) {
	l := newLab(t)
	feature := func(name string) bool {
		t.Helper()
		list, err := l.driver.host.Ethtool.Features("nic0")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if f.Name == name {
				return f.Active
			}
		}
		t.Fatalf("nic0 has no feature %s", name)
		return false
	}
	before := l.states(t)
	r, err := l.driver.Stage(t.Context(), l.plan(t, claim(`{"ethtool": {"features": {"tso": false, "gro": false}}}`, "nic0")))
	if err != nil {
		t.Fatal(err)
	}
	if feature("tx-tcp-segmentation") || feature("rx-gro") {
		t.Error("staging has not set the features")
	}
	again, err := l.driver.Stage(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, again); diff != "" {
		t.Errorf("staging again changes the record:\n%s", diff)
	}
	for range 2 {
		if err := l.driver.Unstage(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, l.states(t)); diff != "" {
			t.Errorf("the host's NICs (-before +after):\n%s", diff)
		}
	}
}

// One device that cannot be staged leaves none staged.
func TestStageIsATransaction(t *testing.T) {
	l := newLab(t)
	before := l.states(t)
	r := l.plan(t, claim(`{"ethtool": {"features": {"tso": false}}}`, "nic0", "nic1"))
	plan, err := ReadPlan(r.Devices[1])
	if err != nil {
		t.Fatal(err)
	}
	plan.Stage.Features = map[string]bool{"netns-immutable": true}
	if r.Devices[1].Plan, err = json.Marshal(plan); err != nil {
		t.Fatal(err)
	}
	if _, err := l.driver.Stage(t.Context(), r); err == nil || !strings.Contains(err.Error(), "stage claim default/claim: device nic1: ethtool.features: ") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(before, l.states(t)); diff != "" {
		t.Errorf("the host's NICs (-before +after):\n%s", diff)
	}
}

// What cannot be restored is refused before anything is changed.
func TestRefusesWhatWouldBeLost(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, "ip link set nic0 up")
	for _, c := range []struct{ add, remove, want string }{
		{"tc qdisc add dev nic0 root handle 1: htb", "tc qdisc del dev nic0 root", "which could not be restored"},
		{"ip nexthop add id 7 dev nic0\nip route add 172.16.0.0/16 nhid 7", "ip route del 172.16.0.0/16\nip nexthop del id 7", "uses a nexthop object, which could not be restored"},
		{"ip link add br0 type bridge\nip link set nic0 master br0", "ip link del br0", "interface nic0 is a port of br0, which would lose it"},
		{"ip link property add dev nic0 altname caf\xe9", "ip link property del dev nic0 altname caf\xe9", `its name "caf\xe9" is not UTF-8`},
	} {
		l.host.Run(t, c.add)
		if _, err := l.driver.Plan(claim("", "nic0"), l.machine(t), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v\nwant %s", c.add, err, c.want)
		}
		l.host.Run(t, c.remove)
	}
	l.plan(t, claim("", "nic0"))
}

// A pod that had the interface for a while leaves nothing of its own on it.
func TestPodsSysctlsAndFeaturesGo(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy)
	l.host.Run(t, `
		ip link property add dev nic0 altname fabric-zero
		sysctl -q -w net.ipv6.conf.nic0.accept_ra=2 net.ipv4.conf.nic0.proxy_arp=1
		tc qdisc replace dev nic0 root handle 8: pfifo limit 77`)
	l.cycle(t, claim(`{"interface": {"name": "net1"}}`, "nic0"), func(pod *hosttest.Namespace, _ driver.Record, _ []driver.DeviceStatus) {
		pod.Run(t, `
			sysctl -q -w net.ipv4.conf.net1.rp_filter=1 net.ipv6.conf.net1.disable_ipv6=1
			ip link property add dev net1 altname mine
			ip link set net1 down
			ip link set net1 alias pods mtu 1290 name other
			tc qdisc replace dev other root pfifo limit 3`)
	})
}

func TestVRF(t *testing.T) {
	hosttest.NeedLink(t, "vrf")
	l := newLab(t)
	l.host.Run(t, busy)
	second := claim(`{"interface": {"vrf": {"name": "blue"}}, "routes": [{"destination": "10.60.0.0/16", "gateway": "10.33.0.1"}]}`, "nic0", "nic1")
	second.Devices[1].Configs = []driver.Config{{Source: "claim", Raw: []byte(`{"interface": {"vrf": {"name": "red"}, "addresses": ["fd99::2/64"]}}`)}}
	l.cycle(t, second, func(pod *hosttest.Namespace, _ driver.Record, s []driver.DeviceStatus) {
		text := pod.Run(t, "ip route show table 1000\nip -6 route show table 1001\nip -br link show type vrf")
		for _, want := range []string{"10.60.0.0/16 via 10.33.0.1 dev nic0", "10.98.0.0/16 via 10.33.0.1", "fd99::/64 dev nic1", "blue", "red"} {
			if !strings.Contains(text, want) {
				t.Errorf("the pod lacks %q:\n%s", want, text)
			}
		}
		if !strings.Contains(strings.Join(s[1].IPs, " "), "fd99::2/64") {
			t.Errorf("enslaving dropped the IPv6 address: %+v", s)
		}
	})
}

// A host's NIC in a VRF comes back into it.
func TestHostsVRF(t *testing.T) {
	hosttest.NeedLink(t, "vrf")
	l := newLab(t)
	l.host.Run(t, `
		ip link add mgmt type vrf table 55
		ip link set mgmt up
		ip link set nic0 master mgmt
		ip address add fd55::2/64 dev nic0 nodad
		ip address add 10.55.0.2/24 dev nic0
		ip link set nic0 up
		ip route add 10.56.0.0/16 via 10.55.0.1 dev nic0 table 55`)
	l.cycle(t, claim("", "nic0"), func(*hosttest.Namespace, driver.Record, []driver.DeviceStatus) {})
}
