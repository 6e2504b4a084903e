// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"

	"plumbline.dev/plumbline/internal/host/netns"
)

var (
	// ErrNoAnswer says that no server answered in time.
	ErrNoAnswer = errors.New("no DHCP server answered")
	// ErrRefused says that the server wants the address not to be used
	// (DHCPNAK).
	ErrRefused = errors.New("the DHCP server refused")
	// ErrUnusable says that the only answers were invalid, such as a multicast
	// address.
	ErrUnusable = errors.New("the DHCP server's answer cannot be used")
)

// Options are the optional parts of a request.
type Options struct {
	// Hostname is sent to the server (option 12); empty for none.
	Hostname string
	// Timeout is the time until the first repetition, which doubles; 1 s when
	// zero.
	Timeout time.Duration
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Acquire asks for a lease for an interface, under its present MAC address.
func Acquire(ctx context.Context, namespace int, ifname string, o Options) (Lease, error) {
	var lease Lease
	err := withSocket(ctx, namespace, ifname, o, func(ctx context.Context, x *exchange) (err error) {
		lease, err = x.acquire(ctx)
		return err
	})
	if err != nil {
		return Lease{}, fmt.Errorf("ask for a DHCP lease for interface %q: %w", ifname, err)
	}
	return lease, nil
}

func (x *exchange) acquire(ctx context.Context) (Lease, error) {
	discover, err := x.message(dhcpv4.MessageTypeDiscover)
	if err != nil {
		return Lease{}, err
	}
	offer, err := x.ask(ctx, discover, nclient4.IsMessageType(dhcpv4.MessageTypeOffer))
	if err != nil {
		return Lease{}, err
	}
	server := offer.ServerIdentifier()
	request, err := x.message(dhcpv4.MessageTypeRequest,
		dhcpv4.WithTransactionID(offer.TransactionID),
		dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offer.YourIPAddr)),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(server)))
	if err != nil {
		return Lease{}, err
	}
	return x.lease(ctx, request, nclient4.IsCorrectServer(server))
}

// Renew extends a lease: by a request to the server that gave it, from T2 on to any
// server. The answer may differ in anything but the address. After ErrRefused the
// address must not be used any more.
func Renew(ctx context.Context, namespace int, ifname string, l Lease, o Options) (Lease, error) {
	var lease Lease
	err := withSocket(ctx, namespace, ifname, o, func(ctx context.Context, x *exchange) error {
		// By broadcast, which also reaches a server behind a relay.
		request, err := x.message(dhcpv4.MessageTypeRequest, dhcpv4.WithClientIP(l.Address.Addr().AsSlice()))
		if err != nil {
			return err
		}
		server := nclient4.IsCorrectServer(l.Server.AsSlice())
		if !l.T2.IsZero() && !x.options.Now().Before(l.T2) {
			server = func(*dhcpv4.DHCPv4) bool { return true }
		}
		lease, err = x.lease(ctx, request, server)
		if err == nil && lease.Address != l.Address {
			err = fmt.Errorf("%w: it gives %s in place of %s", ErrUnusable, lease.Address, l.Address)
		}
		return err
	})
	if err != nil {
		return Lease{}, fmt.Errorf("renew the DHCP lease of %s for interface %q: %w", l.Address, ifname, err)
	}
	return lease, nil
}

// Release gives a lease back. The server does not answer. The interface must be
// up; it need not have the address any more.
func Release(_ context.Context, namespace int, ifname string, l Lease) error {
	err := netns.Do(namespace, func() error { return release(ifname, l) })
	if err != nil {
		return fmt.Errorf("release the DHCP lease of %s for interface %q: %w", l.Address, ifname, err)
	}
	return nil
}

func release(ifname string, l Lease) error {
	mac, err := net.ParseMAC(l.MAC)
	if err != nil {
		return err
	}
	message, err := dhcpv4.New(dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(dhcpv4.MessageTypeRelease),
		dhcpv4.WithClientIP(l.Address.Addr().AsSlice()), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(l.Server.AsSlice())))
	if err != nil {
		return err
	}
	conn, err := nclient4.NewRawUDPConn(ifname, nclient4.ClientPort)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is buffered
	// A server drops a unicast message without a source address.
	if raw, ok := conn.(*nclient4.BroadcastRawUDPConn); ok {
		conn = nclient4.NewBroadcastUDPConn(raw.PacketConn, udp(l.Address.Addr(), nclient4.ClientPort))
	}
	_, err = conn.WriteTo(message.ToBytes(), udp(l.Server, nclient4.ServerPort))
	return err
}

func udp(ip netip.Addr, port uint16) *net.UDPAddr {
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, port))
}
