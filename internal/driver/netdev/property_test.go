// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/hosttest"
)

// rounds of the test below; each moves up to three NICs there and back. Fewer
// in a virtual machine, where one takes seconds.
func rounds() uint64 {
	if testing.Short() {
		return 3
	}
	return 12
}

// Whatever a host's NICs carry, whatever a claim says and whatever a pod does
// to them: afterwards the host is as it was.
func TestAnythingComesBack(t *testing.T) {
	for seed := range rounds() {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			l := newLab(t)
			setup := randomHost(random)
			l.host.Run(t, setup)
			ethtoolIn(t, l.host, "nic0", randomChannels(random))
			before, states := look(t, l.host), l.states(t)

			devices := []string{"nic0", "nic1", "nic2"}
			random.Shuffle(len(devices), func(i, j int) { devices[i], devices[j] = devices[j], devices[i] })
			devices = devices[:1+random.IntN(3)]
			parameters := randomParameters(random, len(devices), l.sizesOfIPv4(t))
			r, err := l.driver.Stage(t.Context(), l.plan(t, claim(parameters, devices...)))
			if err != nil {
				t.Fatalf("stage %s: %v", parameters, err)
			}
			pod := hosttest.NewNamespace(t)
			pod.Run(t, quiet)
			statuses := l.attach(t, r, pod)
			inside := look(t, pod)
			l.attach(t, r, pod)
			expect(t, "the pod after attaching again", inside, pod)
			for _, s := range statuses {
				if random.IntN(2) == 0 {
					ethtoolIn(t, pod, s.InterfaceName, randomChannels(random))
				}
				pod.Run(t, randomMeddling(random, s.InterfaceName))
			}
			for range 2 {
				if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
					t.Error(err)
				}
				if err := l.driver.Unstage(t.Context(), r); err != nil {
					t.Error(err)
				}
				expect(t, "the host", before, l.host)
			}
			if diff := cmp.Diff(states, l.states(t)); diff != "" {
				t.Errorf("the host's NICs (-before +after):\n%s", diff)
			}
			if t.Failed() {
				t.Logf("host:%s\nparameters: %s\ndevices: %v", setup, parameters, devices)
			}
		})
	}
}

func randomHost(r *rand.Rand) string {
	var b strings.Builder
	var up []int
	for nic := range 3 {
		fmt.Fprintf(&b, "\nip link set nic%d mtu %d", nic, 1300+r.IntN(3000))
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, "\nip link property add dev nic%d altname fabric%d", nic, nic)
		}
		if r.IntN(2) == 0 { // before a setting that the kernel takes none beside
			fmt.Fprintf(&b, "\nip token set ::%d dev nic%d", nic+5, nic)
		}
		for range r.IntN(4) {
			b.WriteString("\nsysctl -q -w " + fmt.Sprintf([]string{
				"net.ipv4.conf.nic%d.rp_filter=2", "net.ipv4.conf.nic%d.proxy_arp=1", "net.ipv4.conf.nic%d.forwarding=1",
				"net.ipv6.conf.nic%d.accept_ra=0", "net.ipv6.conf.nic%d.hop_limit=77", "net.ipv4.neigh.nic%d.gc_stale_time=77",
			}[r.IntN(6)], nic))
		}
		for i := range r.IntN(4) {
			fmt.Fprintf(&b, "\nip address add 10.%d.%d.2/%d dev nic%d", nic, i, 16+r.IntN(17), nic)
		}
		if r.IntN(4) == 0 {
			continue
		}
		up = append(up, nic)
		fmt.Fprintf(&b, "\nip link set nic%d up", nic)
		for i := range r.IntN(3) {
			fmt.Fprintf(&b, "\nip address add fd0%d::%d/%d dev nic%d%s", nic, i+2, 64+r.IntN(65), nic,
				[]string{"", " nodad", " noprefixroute"}[r.IntN(3)])
		}
		fmt.Fprintf(&b, "\nip route add 10.%d.255.1 dev nic%d table %d", nic, nic, []int{254, 254, 77}[r.IntN(3)])
		if r.IntN(2) == 0 { // what fits beside these addresses only
			fmt.Fprintf(&b, "\nip address add 10.3%d.0.2/24 dev nic%d", nic, nic)
			fmt.Fprintf(&b, "\nip route add 172.2%d.0.0/16 via 10.3%d.0.1 dev nic%d src 10.3%d.0.2 table %d", nic+4, nic, nic, nic, []int{254, 77}[r.IntN(2)])
			fmt.Fprintf(&b, "\nip rule add from 10.3%d.0.0/24 lookup 77 pref %d", nic, 700+nic)
		}
		for i := range r.IntN(4) {
			fmt.Fprintf(&b, "\nip route add 172.16.%d.0/24 via 10.%d.255.1 dev nic%d onlink metric %d table %d",
				nic*10+i, nic, nic, 1+r.IntN(9), []int{254, 77, 5000}[r.IntN(3)])
		}
		for i := range r.IntN(3) {
			fmt.Fprintf(&b, "\nip -6 route add fd1%d::/48 via fe80::1 dev nic%d metric %d table %d", i, nic, 10*nic+i+1, 254-r.IntN(2)*200)
		}
		fmt.Fprintf(&b, "\nip neighbour add 10.%d.0.9 lladdr 02:00:00:00:09:0%d nud permanent dev nic%d", nic, nic, nic)
		for range r.IntN(4) {
			fmt.Fprintf(&b, []string{
				"\nip neighbour replace proxy 10.%d.0.7 dev nic%d", "\nip neighbour replace proxy fd0%d::7 dev nic%d",
				"\nbridge fdb replace 02:00:00:00:77:0%d dev nic%d self permanent",
				"\nip -s maddr add 01:00:5e:00:00:0%d dev nic%d", // ends ip, which reads no further line
			}[r.IntN(4)], nic, nic)
		}
	}
	for i := range len(up) - 1 {
		a, c := up[i], up[i+1]
		fmt.Fprintf(&b, "\nip route add 172.20.%d.0/24 nexthop dev nic%d weight 3 nexthop dev nic%d", i, a, c)
		fmt.Fprintf(&b, "\nip -6 route add fd2%d::/48 nexthop via fe80::1 dev nic%d nexthop via fe80::2 dev nic%d", i, a, c)
	}
	return b.String()
}

// sizesOfIPv4 tells whether the kernel has gso_ipv4_max_size and its like.
func (l *lab) sizesOfIPv4(t *testing.T) bool {
	t.Helper()
	link, err := l.driver.host.LinkByName("nic0")
	if err != nil || link == nil {
		t.Fatal("nic0 is not there: ", err)
	}
	return link.Settings.GSOIPv4Max != nil
}

func randomParameters(r *rand.Rand, devices int, sizesOfIPv4 bool) string {
	var fields, more []string
	for _, field := range []string{`"forwarding": true`, `"forwarding": false`, `"arpIgnore": 8`, `"arpAnnounce": 1`} {
		if r.IntN(4) == 0 && !strings.Contains(strings.Join(fields, ""), strings.SplitN(field, ":", 2)[0]) {
			fields = append(fields, field)
		}
	}
	if devices == 1 && r.IntN(2) == 0 { // two interfaces of a pod cannot have the same
		more = append(more, `"routes": [{"destination": "10.78.0.0/16", "scope": 253, "metric": 9}, {"destination": "10.79.0.0/16", "gateway": "10.78.0.1", "onlink": true, "table": 79}]`)
	}
	for _, field := range []string{
		`"neighbors": [{"ipAddress": "10.77.0.9", "hardwareAddr": "02:00:00:00:77:09"}]`,
		`"rules": [{"source": "10.77.0.0/16", "table": 77}, {"destination": "fd77::/48", "table": 78, "priority": 9}]`,
		`"neighbors": []`,
		`"rules": []`,
		`"ethtool": {"features": {"tso": false, "tx-checksum-ip-generic": false}}`,
		`"ethtool": {"features": {"gro": false, "highdma": false}}`,
	} {
		if r.IntN(3) == 0 && !strings.Contains(strings.Join(more, ""), field[:8]) {
			more = append(more, field)
		}
	}
	if r.IntN(2) == 0 {
		fields = append(fields, fmt.Sprintf(`"mtu": %d`, 1280+r.IntN(5000)))
	}
	if r.IntN(2) == 0 {
		fields = append(fields, fmt.Sprintf(`"gsoMaxSize": %d, "groMaxSize": %d`, 20000+r.IntN(200000), 20000+r.IntN(200000)))
	}
	if r.IntN(2) == 0 && sizesOfIPv4 {
		fields = append(fields, fmt.Sprintf(`"gsoIPv4MaxSize": %d, "groIPv4MaxSize": %d`, 20000+r.IntN(40000), 20000+r.IntN(40000)))
	}
	switch r.IntN(4) {
	case 0:
		fields = append(fields, `"addresses": ["10.77.0.2/24", "fd77::2/64"]`)
	case 1:
		fields = append(fields, `"addressing": "unnumbered"`)
	}
	if devices == 1 {
		fields = append(fields, `"name": "fabric-0.x"`, `"hardwareAddr": "02:00:00:00:aa:01"`)
	}
	return "{" + strings.Join(append(more, `"interface": {`+strings.Join(fields, ", ")+"}"), ", ") + "}"
}

// randomChannels are some of those that a veth of the lab has.
func randomChannels(r *rand.Rand) ethtool.Settings {
	return ethtool.Settings{"channels.rx": strconv.Itoa(1 + r.IntN(4)), "channels.tx": strconv.Itoa(1 + r.IntN(4))}
}

func randomMeddling(r *rand.Rand, name string) string {
	var lines []string
	for i := range r.IntN(4) {
		lines = append(lines, []string{
			"ip link set " + name + " down",
			"ip link set " + name + " mtu 1290",
			"ip address flush dev " + name,
			"ip address replace 192.0.2.9/24 dev " + name,
			"ip link set " + name + " alias mine txqueuelen 7 group 9 promisc on arp off multicast off gso_max_segs 99 addrgenmode none",
			"ip route flush dev " + name,
			"sysctl -q -w net.ipv4.conf." + dotless(name) + ".rp_filter=1",
			"ip link property add dev " + name + " altname mine" + strconv.Itoa(i) + name[len(name)-1:],
			"ip link set " + name + " mode dormant broadcast ff:ff:ff:ff:ff:fd",
			"ip neighbour replace proxy 192.0.2.7 dev " + name,
			"bridge fdb replace 02:00:00:00:78:00 dev " + name + " self permanent",
			"ip -s maddr add 01:00:5e:00:01:00 dev " + name,
		}[r.IntN(12)])
	}
	if r.IntN(2) == 0 {
		lines = append(lines, "ip link set "+name+" down", "ip link set "+name+" name x"+name[:2]+name[len(name)-1:])
	}
	return strings.Join(lines, "\n")
}

// dotless is an interface's name as sysctl writes it.
func dotless(name string) string { return strings.ReplaceAll(name, ".", "/") }
