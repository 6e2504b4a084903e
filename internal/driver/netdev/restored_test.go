// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/hosttest"
)

// ethtoolIn sets what ethtool sets of an interface, in a namespace of a pod's.
func ethtoolIn(t *testing.T, ns *hosttest.Namespace, name string, s ethtool.Settings) {
	t.Helper()
	conn, err := ethtool.Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.RestoreSettings(name, s); err != nil {
		t.Fatal(err)
	}
}

// A pod may set channels; the host has its own again.
func TestChannelsComeBack(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy)
	ethtoolIn(t, l.host, "nic0", ethtool.Settings{"channels.rx": "3"})
	l.cycle(t, claim("", "nic0"), func(pod *hosttest.Namespace, _ driver.Record, _ []driver.DeviceStatus) {
		ethtoolIn(t, pod, "nic0", ethtool.Settings{"channels.rx": "1", "channels.tx": "2"})
	})
	list, err := l.driver.host.Ethtool.Settings("nic0")
	if err != nil || list["channels.rx"] != "3" || list["channels.tx"] != "4" {
		t.Errorf("%v, %v, want 3 channels to receive and 4 to send", list, err)
	}
}

// neighbourly makes a host's NIC one that others know.
const neighbourly = `
	ip token set ::5 dev nic0
	ip link set nic0 broadcast ff:ff:ff:ff:ff:fe
	ip neighbour add proxy 10.44.0.7 dev nic0
	ip neighbour add proxy fd00::7 dev nic0
	bridge fdb add 02:00:00:00:00:77 dev nic0 self permanent
	ip maddr add 01:00:5e:00:00:05 dev nic0`

// The host's neighbours, proxies and link layer addresses are restored, and those that a
// pod added are not kept.
func TestNeighbourhoodComesBack(t *testing.T) {
	for name, host := range map[string]string{
		"by the kernel's defaults": "",
		// The kernel takes a token only where these allow it.
		"deaf to routers": "sysctl -q -w net.ipv6.conf.nic0.accept_ra=0 net.ipv6.conf.nic0.router_solicitations=0 net.ipv6.conf.default.accept_ra=0",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.host.Run(t, "ip link set nic1 mode dormant"+busy+neighbourly)
			l.host.Run(t, host)
			l.cycle(t, claim("", "nic0", "nic1"), func(pod *hosttest.Namespace, _ driver.Record, _ []driver.DeviceStatus) {
				pod.Run(t, `
					ip neighbour add proxy 10.44.0.8 dev nic0
					ip token set ::6 dev nic0
					ip link set nic0 broadcast ff:ff:ff:ff:ff:fd
					ip link set nic1 mode default
					bridge fdb add 02:00:00:00:00:78 dev nic0 self permanent
					ip maddr add 01:00:5e:00:00:06 dev nic0`)
			})
		})
	}
}

// A record of an earlier version, which read less, restores what it has.
func TestRecordOfAnEarlierVersion(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy)
	before := look(t, l.host)
	pod := hosttest.NewNamespace(t)
	r := l.plan(t, claim("", "nic0"))
	var plan map[string]map[string]json.RawMessage
	if err := json.Unmarshal(r.Devices[0].Plan, &plan); err != nil {
		t.Fatal(err)
	}
	delete(plan["host"], "ethtool")
	for _, name := range []string{"mode", "broadcast"} {
		plan["host"]["settings"] = regexp.MustCompile(`"`+name+`":[^,}]+,?`).ReplaceAll(plan["host"]["settings"], nil)
	}
	var err error
	if r.Devices[0].Plan, err = json.Marshal(plan); err != nil {
		t.Fatal(err)
	}
	l.attach(t, r, pod)
	ethtoolIn(t, pod, "nic0", ethtool.Settings{"channels.rx": "1"})
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Error(err)
	}
	if err := l.driver.Unstage(t.Context(), r); err != nil {
		t.Error(err)
	}
	expect(t, "the host", before, l.host)
}

// The kernel would not take the token back.
func TestRefusesTokenWithoutARP(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, "ip token set ::5 dev nic0\nip link set nic0 arp off")
	const want = "interface nic0 has the IPv6 token ::5 and no ARP"
	if _, err := l.driver.Plan(claim("", "nic0"), l.machine(t), nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}
