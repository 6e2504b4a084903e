// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/hosttest/dhcpserver"
)

// dhcpServer answers on port0 of the lab's switch.
type dhcpServer struct{ *dhcpserver.Server }

func (l *lab) serveDHCP(t *testing.T) dhcpServer {
	t.Helper()
	l.fabric.Run(t, "ip address add 10.9.0.1/24 dev port0")
	return dhcpServer{dhcpserver.Serve(t, l.fabric, "port0", giving("10.9.0.7"))}
}

// giving offers an address, and answers a request for another with DHCPNAK.
func giving(address string) dhcpserver.Answer {
	return func(m *dhcpv4.DHCPv4) []dhcpv4.Modifier {
		_, to, _ := net.ParseCIDR("10.60.0.0/16")
		answer := []dhcpv4.Modifier{
			dhcpv4.WithYourIP(net.ParseIP(address)), dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithLeaseTime(800),
			dhcpv4.WithRouter(net.ParseIP("10.9.0.1")), dhcpv4.WithServerIP(net.ParseIP("10.9.0.1")),
			dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP("10.9.0.1"))),
			dhcpv4.WithOption(dhcpv4.OptClasslessStaticRoute(&dhcpv4.Route{Dest: to, Router: net.ParseIP("10.9.0.9")})),
		}
		if ip := m.ClientIPAddr; !ip.IsUnspecified() && ip.String() != address {
			answer = append(answer, dhcpv4.WithMessageType(dhcpv4.MessageTypeNak))
		}
		return answer
	}
}

// waitFor waits until the server has heard a kind of message from a client.
func (s dhcpServer) waitFor(t *testing.T, kind dhcpv4.MessageType, mac string) {
	t.Helper()
	s.Await(t, kind.String()+" of "+mac, func(m *dhcpv4.DHCPv4) bool {
		return m.MessageType() == kind && m.ClientHWAddr.String() == mac
	})
}

// wasUp gives nic0 the queueing discipline that a link keeps which was up once.
const wasUp = "ip link set nic0 up\nip link set nic0 down"

// The address is acquired on the host with the pod's MAC, renewed from inside the pod,
// and released at the end; the host is as it was.
func TestDHCP(t *testing.T) {
	l := newLab(t)
	server := l.serveDHCP(t)
	l.host.Run(t, wasUp)
	clock := time.Now()
	l.driver.now = func() time.Time { return clock }
	before, states := look(t, l.host), l.states(t)
	pod := hosttest.NewNamespace(t)
	pod.Run(t, quiet)

	r := l.plan(t, claim(`{"interface": {"name": "net1", "dhcp": true, "hardwareAddr": "02:00:00:00:aa:01"}}`, "nic0"))
	r, err := l.driver.Stage(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	server.waitFor(t, dhcpv4.MessageTypeRequest, "02:00:00:00:aa:01")
	inPod := func(wants ...string) {
		t.Helper()
		text := pod.Run(t, "ip address show net1\nip route show")
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("the pod lacks %q:\n%s", want, text)
			}
		}
		if strings.Contains(text, "default via") || strings.Count(text, "inet 10.9.0") != 1 {
			t.Errorf("the pod has a default route, or another address:\n%s", text)
		}
	}
	s := l.attach(t, r, pod)
	if len(s) != 1 || strings.Join(s[0].IPs, " ") != "10.9.0.7/24" {
		t.Errorf("status %+v", s)
	}
	inPod("10.9.0.7/24", "10.60.0.0/16 via 10.9.0.9 dev net1")

	renew := func() (next time.Time) {
		t.Helper()
		renewed, next, err := l.driver.Renew(t.Context(), r, pod.Path())
		if err != nil {
			t.Fatal(err)
		}
		r = renewed
		return next
	}
	due := renew()
	if left := due.Sub(clock); left < 390*time.Second || left > 410*time.Second {
		t.Errorf("due in %s, want half of 800 s", left)
	}
	clock = due
	if next := renew(); !next.After(due) {
		t.Errorf("renewed, and due at %s again", next)
	}
	inPod("10.9.0.7/24")
	// Refused: another address, in place of the first.
	server.Set(giving("10.9.0.8"))
	clock = clock.Add(500 * time.Second)
	renew()
	inPod("10.9.0.8/24", "10.60.0.0/16 via 10.9.0.9 dev net1")

	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.driver.Unstage(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		expect(t, "the host", before, l.host)
	}
	server.waitFor(t, dhcpv4.MessageTypeRelease, "02:00:00:00:aa:01")
	if after := l.states(t); after != states {
		t.Errorf("the host's NICs were\n%s\nare\n%s", states, after)
	}
}

// A lease that ran out before its pod came, or while nobody could renew it, does
// not keep the pod: the interface comes without the address, and renewing gives it
// one with everything that needs it.
func TestLeaseThatRanOut(t *testing.T) {
	for _, test := range []struct{ name, next string }{
		{"the same address again", "10.9.0.7"},
		{"another address", "10.9.0.8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			server := l.serveDHCP(t)
			clock := time.Now().Add(-time.Hour) // the kernel's own does not wait
			l.driver.now = func() time.Time { return clock }
			pod := hosttest.NewNamespace(t)
			pod.Run(t, quiet)
			r := l.plan(t, claim(`{"interface": {"name": "net1", "dhcp": true}, "routes": [{"destination": "10.70.0.0/16", "gateway": "10.9.0.9"}]}`, "nic0"))
			r, err := l.driver.Stage(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			clock = time.Now()
			server.Set(giving(test.next))
			for range 2 { // also into a pod that has the interface already
				s := l.attach(t, r, pod)
				if len(s) != 1 || len(s[0].IPs) > 0 || !strings.Contains(s[0].Note, "the lease of 10.9.0.7/24 ran out at ") {
					t.Errorf("status %+v: want no address, and a note on the lease", s)
				}
			}
			renewed, next, err := l.driver.Renew(t.Context(), r, pod.Path())
			if err != nil || !next.After(clock) {
				t.Fatalf("renewed until %s: %v", next, err)
			}
			s := l.attach(t, renewed, pod)
			if len(s) != 1 || strings.Join(s[0].IPs, " ") != test.next+"/24" || s[0].Note != "" {
				t.Errorf("status %+v, want %s", s, test.next)
			}
			routes := pod.Run(t, "ip route show")
			for _, to := range []string{"10.60.0.0/16", "10.70.0.0/16"} {
				if !strings.Contains(routes, to+" via 10.9.0.9 dev net1") {
					t.Errorf("no route to %s:\n%s", to, routes)
				}
			}
			if err := l.driver.Detach(t.Context(), renewed, pod.Path()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Without a DHCP server the claim is refused, and the host as before.
func TestNoDHCPServer(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, wasUp)
	before := look(t, l.host)
	r := l.plan(t, claim(`{"interface": {"addressing": "dhcp"}}`, "nic0"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := l.driver.Stage(ctx, r)
	if err == nil || !strings.Contains(err.Error(), "stage claim default/claim: device nic0: interface.dhcp: ") {
		t.Errorf("error %v", err)
	}
	expect(t, "the host", before, l.host)
}

// Renew does nothing for a record without leases.
func TestNothingToRenew(t *testing.T) {
	l := newLab(t)
	r := l.plan(t, claim("", "nic0"))
	same, next, err := l.driver.Renew(t.Context(), r, "/nowhere")
	if err != nil || !next.IsZero() || len(same.Devices) != 1 {
		t.Errorf("%+v, due %s, error %v", same, next, err)
	}
}
