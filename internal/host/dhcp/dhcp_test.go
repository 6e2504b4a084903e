// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/hosttest/dhcpserver"
)

// server answers on srv0, 10.9.0.1/24; the client's end is nic0 in another
// namespace.
type server struct {
	*dhcpserver.Server
	client *hosttest.Namespace
}

func ip(text string) net.IP { return net.ParseIP(text).To4() }

// plain is an answer as a decent server gives it.
func plain() []dhcpv4.Modifier {
	return []dhcpv4.Modifier{
		dhcpv4.WithYourIP(ip("10.9.0.7")),
		dhcpv4.WithNetmask(net.CIDRMask(24, 32)),
		dhcpv4.WithLeaseTime(800),
		dhcpv4.WithRouter(ip("10.9.0.1")),
		dhcpv4.WithDNS(ip("10.9.0.2"), ip("0.0.0.0")),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(ip("10.9.0.1"))),
	}
}

func newServer(t *testing.T) *server {
	t.Helper()
	client, there := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	hosttest.Veth(t, there, "srv0", client, "nic0")
	there.Run(t, "ip link set srv0 up\nip address add 10.9.0.1/24 dev srv0")
	client.Run(t, "ip link set nic0 up")
	decent := func(*dhcpv4.DHCPv4) []dhcpv4.Modifier { return plain() }
	return &server{Server: dhcpserver.Serve(t, there, "srv0", decent), client: client}
}

// set changes a decent answer; a request is refused where nak says why.
func (s *server) set(nak string, modifiers ...dhcpv4.Modifier) {
	s.Set(func(m *dhcpv4.DHCPv4) []dhcpv4.Modifier {
		all := append(plain(), modifiers...)
		if nak != "" && m.MessageType() == dhcpv4.MessageTypeRequest {
			all = append(all, dhcpv4.WithMessageType(dhcpv4.MessageTypeNak), dhcpv4.WithOption(dhcpv4.OptMessage(nak)))
		}
		return all
	})
}

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func options(now time.Time) Options {
	return Options{Hostname: "trainer", Timeout: 100 * time.Millisecond, Now: func() time.Time { return now }}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func (s *server) acquire(t *testing.T) (Lease, error) {
	t.Helper()
	return Acquire(within(t, 10*time.Second), s.client.Fd(), "nic0", options(start))
}

func compare(t *testing.T, what string, want, got Lease) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestLease(t *testing.T) {
	s := newServer(t)
	got, err := s.acquire(t)
	if err != nil {
		t.Fatal(err)
	}
	want := Lease{
		Address: netip.MustParsePrefix("10.9.0.7/24"), MAC: got.MAC, Gateway: netip.MustParseAddr("10.9.0.1"),
		Routes: []Route{{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("10.9.0.1")}},
		DNS:    []netip.Addr{netip.MustParseAddr("10.9.0.2")}, Server: netip.MustParseAddr("10.9.0.1"),
		Acquired: start, T1: start.Add(400 * time.Second), T2: start.Add(700 * time.Second), Expiry: start.Add(800 * time.Second),
	}
	compare(t, "lease", want, got)
	if out := s.client.Run(t, "ip -o link show nic0"); s.Last().HostName() != "trainer" || !strings.Contains(out, "link/ether "+got.MAC) {
		t.Errorf("the server heard of %s at %s; nic0 is %s", s.Last().HostName(), got.MAC, out)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var journaled Lease
	if err := json.Unmarshal(text, &journaled); err != nil {
		t.Fatal(err)
	}
	compare(t, "journaled", want, journaled)

	// More time, and other options.
	later := start.Add(500 * time.Second)
	s.set("", dhcpv4.WithLeaseTime(1600), dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{0x20, 0}),
		dhcpv4.WithOption(dhcpv4.OptClasslessStaticRoute(
			&dhcpv4.Route{Dest: &net.IPNet{IP: ip("10.8.0.0"), Mask: net.CIDRMask(16, 32)}, Router: ip("10.9.0.3")},
			&dhcpv4.Route{Dest: &net.IPNet{IP: ip("10.9.1.0"), Mask: net.CIDRMask(24, 32)}, Router: ip("0.0.0.0")})))
	renewed, err := Renew(within(t, 10*time.Second), s.client.Fd(), "nic0", journaled, options(later))
	if err != nil {
		t.Fatal(err)
	}
	want.MTU, want.Acquired = 8192, later
	want.T1, want.T2, want.Expiry = later.Add(800*time.Second), later.Add(1400*time.Second), later.Add(1600*time.Second)
	want.Routes = []Route{
		{netip.MustParsePrefix("10.8.0.0/16"), netip.MustParseAddr("10.9.0.3")}, {Destination: netip.MustParsePrefix("10.9.1.0/24")},
	}
	compare(t, "renewed", want, renewed)
	if m := s.Last(); !m.ClientIPAddr.Equal(ip("10.9.0.7")) || m.ServerIdentifier() != nil || m.RequestedIPAddress() != nil {
		t.Errorf("a renewal has the client's address alone: %s", m.Summary())
	}

	// Given back, though nic0 never had the address.
	if err := Release(t.Context(), s.client.Fd(), "nic0", renewed); err != nil {
		t.Fatal(err)
	}
	s.Await(t, "the release", func(m *dhcpv4.DHCPv4) bool {
		return m.MessageType() == dhcpv4.MessageTypeRelease && m.ClientIPAddr.Equal(ip("10.9.0.7"))
	})
}

func TestRefused(t *testing.T) {
	s := newServer(t)
	lease, err := s.acquire(t)
	if err != nil {
		t.Fatal(err)
	}
	s.set("not here")
	if _, err := s.acquire(t); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "not here") {
		t.Errorf("a refused request: %v", err)
	}
	_, err = Renew(within(t, 10*time.Second), s.client.Fd(), "nic0", lease, options(start))
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "10.9.0.7/24") {
		t.Errorf("a refused renewal: %v", err)
	}
}

func TestRenewByAnotherServer(t *testing.T) {
	s := newServer(t)
	lease, err := s.acquire(t)
	if err != nil {
		t.Fatal(err)
	}
	s.set("", dhcpv4.WithOption(dhcpv4.OptServerIdentifier(ip("10.9.0.5"))))
	if _, err := Renew(within(t, 300*time.Millisecond), s.client.Fd(), "nic0", lease, options(lease.T1)); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("before T2: %v, want no answer of the right server", err)
	}
	renewed, err := Renew(within(t, 10*time.Second), s.client.Fd(), "nic0", lease, options(lease.T2))
	if err != nil || renewed.Server != netip.MustParseAddr("10.9.0.5") {
		t.Errorf("after T2: %v, %v", renewed, err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	hosttest.Veth(t, ns, "nic0", ns, "nic1")
	if _, err := Acquire(within(t, time.Second), ns.Fd(), "nic0", options(start)); err == nil || errors.Is(err, ErrNoAnswer) {
		t.Errorf("an interface that is down: %v", err)
	}
	ns.Run(t, "ip link set nic0 up\nip link set nic1 up")
	_, err := Acquire(within(t, 250*time.Millisecond), ns.Fd(), "nic0", options(start))
	if !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), `interface "nic0"`) || !strings.Contains(err.Error(), "within") {
		t.Errorf("a network without a server: %v", err)
	}
	if _, err := Acquire(within(t, time.Second), ns.Fd(), "nic7", options(start)); err == nil {
		t.Error("an interface that is not there has a lease")
	}
}

func TestUnusable(t *testing.T) {
	s := newServer(t)
	route := func(router string) dhcpv4.Modifier {
		return dhcpv4.WithOption(dhcpv4.OptClasslessStaticRoute(
			&dhcpv4.Route{Dest: &net.IPNet{IP: ip("10.8.0.0"), Mask: net.CIDRMask(16, 32)}, Router: ip(router)}))
	}
	tests := map[string]dhcpv4.Modifier{
		"0.0.0.0 is no host":            dhcpv4.WithYourIP(ip("0.0.0.0")),
		"224.0.0.1 is no host":          dhcpv4.WithYourIP(ip("224.0.0.1")),
		"255.255.255.255 is no host":    dhcpv4.WithYourIP(ip("255.255.255.255")),
		"127.0.0.1 is no host":          dhcpv4.WithYourIP(ip("127.0.0.1")),
		"10.9.0.255/24 is its network":  dhcpv4.WithYourIP(ip("10.9.0.255")),
		"10.9.0.0/24 is its network":    dhcpv4.WithYourIP(ip("10.9.0.0")),
		`subnet mask "255.0.255.0"`:     dhcpv4.WithNetmask(net.IPMask{255, 0, 255, 0}),
		`subnet mask "128.0.0.0"`:       dhcpv4.WithNetmask(net.CIDRMask(1, 32)),
		`subnet mask "<nil>"`:           dhcpv4.WithoutOption(dhcpv4.OptionSubnetMask),
		"a lease of no time":            dhcpv4.WithLeaseTime(0),
		"router 255.255.255.255":        dhcpv4.WithRouter(ip("255.255.255.255")),
		"gateway 239.1.1.1":             route("239.1.1.1"),
		"MTU 67":                        dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{0, 67}),
		"its identifier 127.0.0.1":      dhcpv4.WithOption(dhcpv4.OptServerIdentifier(ip("127.0.0.1"))),
		"its identifier <nil> is no ho": dhcpv4.WithoutOption(dhcpv4.OptionServerIdentifier),
	}
	for want, modifier := range tests {
		t.Run(want, func(t *testing.T) {
			s.set("", modifier)
			_, err := Acquire(within(t, 150*time.Millisecond), s.client.Fd(), "nic0", options(start))
			for limit := 300 * time.Millisecond; errors.Is(err, ErrNoAnswer) && limit < time.Minute; limit *= 2 { // a slow machine
				_, err = Acquire(within(t, limit), s.client.Fd(), "nic0", options(start))
			}
			if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
	s.set("")
	if _, err := s.acquire(t); err != nil {
		t.Errorf("the decent server is not believed any more: %v", err)
	}
}

func TestForEver(t *testing.T) {
	s := newServer(t)
	s.set("", dhcpv4.WithLeaseTime(forEver))
	if l, err := s.acquire(t); err != nil || !l.Expiry.IsZero() || !l.T1.IsZero() {
		t.Errorf("a lease for ever: %+v, %v", l, err)
	}
}

func FuzzLease(f *testing.F) {
	good, err := dhcpv4.New(append(plain(), dhcpv4.WithMessageType(dhcpv4.MessageTypeAck))...)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good.ToBytes())
	f.Fuzz(func(t *testing.T, packet []byte) {
		p, err := dhcpv4.FromBytes(packet)
		if err != nil {
			return
		}
		l, err := readLease(p, start)
		if err != nil {
			if !errors.Is(err, ErrUnusable) {
				t.Errorf("error %v", err)
			}
			return
		}
		ordered := l.Expiry.IsZero() || l.Acquired.Before(l.Expiry) && !l.T1.After(l.T2) && !l.T2.After(l.Expiry)
		if !l.Address.IsValid() || l.Address.Addr().IsMulticast() || !l.Server.IsValid() || !ordered || l.MTU < 0 {
			t.Errorf("lease %+v", l)
		}
		for _, r := range l.Routes {
			if r.Destination != r.Destination.Masked() || r.Gateway.IsMulticast() {
				t.Errorf("route %+v", r)
			}
		}
	})
}
