// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// dhcpServer answers on port0 of the lab's switch.
type dhcpServer struct {
	mutex   sync.Mutex
	address string
	heard   []string
}

func (l *lab) serveDHCP(t *testing.T) *dhcpServer {
	t.Helper()
	s := &dhcpServer{address: "10.9.0.7"}
	l.fabric.Run(t, "ip address add 10.9.0.1/24 dev port0")
	var running *server4.Server
	l.fabric.Do(t, func() (err error) {
		running, err = server4.NewServer("port0", &net.UDPAddr{Port: dhcpv4.ServerPort}, s.handle)
		return err
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = running.Serve() // ends with Close
	}()
	t.Cleanup(func() {
		_ = running.Close()
		<-done
	})
	return s
}

func (s *dhcpServer) handle(conn net.PacketConn, peer net.Addr, m *dhcpv4.DHCPv4) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.heard = append(s.heard, m.MessageType().String()+" "+m.ClientHWAddr.String())
	kind := dhcpv4.MessageTypeOffer
	switch m.MessageType() {
	case dhcpv4.MessageTypeDiscover:
	case dhcpv4.MessageTypeRequest:
		kind = dhcpv4.MessageTypeAck
		if ip := m.ClientIPAddr; !ip.IsUnspecified() && ip.String() != s.address {
			kind = dhcpv4.MessageTypeNak
		}
	default:
		return
	}
	_, to, _ := net.ParseCIDR("10.60.0.0/16")
	answer, err := dhcpv4.New(dhcpv4.WithReply(m), dhcpv4.WithMessageType(kind),
		dhcpv4.WithYourIP(net.ParseIP(s.address)), dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithLeaseTime(800),
		dhcpv4.WithRouter(net.ParseIP("10.9.0.1")), dhcpv4.WithServerIP(net.ParseIP("10.9.0.1")),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP("10.9.0.1"))),
		dhcpv4.WithOption(dhcpv4.OptClasslessStaticRoute(&dhcpv4.Route{Dest: to, Router: net.ParseIP("10.9.0.9")})))
	if err == nil {
		_, _ = conn.WriteTo(answer.ToBytes(), peer)
	}
}

func (s *dhcpServer) give(address string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.address = address
}

// waitFor waits until the server has heard a message.
func (s *dhcpServer) waitFor(t *testing.T, message string) {
	t.Helper()
	for range 200 {
		s.mutex.Lock()
		all := strings.Join(s.heard, "\n")
		s.mutex.Unlock()
		if strings.Contains(all, message) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the server did not hear %q but %q", message, s.heard)
}

// wasUp gives nic0 the queueing discipline that a link keeps which was up once.
const wasUp = "ip link set nic0 up\nip link set nic0 down"

// The address is asked for on the host with the pod's MAC, renewed from inside
// the pod, and given back at the end; the host is as it was.
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
	server.waitFor(t, "REQUEST 02:00:00:00:aa:01")
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
	server.give("10.9.0.8")
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
	server.waitFor(t, "RELEASE 02:00:00:00:aa:01")
	if after := l.states(t); after != states {
		t.Errorf("the host's NICs were\n%s\nare\n%s", states, after)
	}
}

// Nobody answers: the claim is refused, and the host as before.
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

// Renewing is for who has something to renew.
func TestNothingToRenew(t *testing.T) {
	l := newLab(t)
	r := l.plan(t, claim("", "nic0"))
	same, next, err := l.driver.Renew(t.Context(), r, "/nowhere")
	if err != nil || !next.IsZero() || len(same.Devices) != 1 {
		t.Errorf("%+v, due %s, error %v", same, next, err)
	}
}
