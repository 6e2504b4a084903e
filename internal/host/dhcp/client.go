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
	// ErrUnusable says that the only answers were such as no host should take.
	ErrUnusable = errors.New("the DHCP server's answer cannot be used")
)

// longest is how long a request takes at most when its context has no deadline.
const longest = 10 * time.Second

// Options are what a request can do without.
type Options struct {
	// Hostname is told to the server; empty for none.
	Hostname string
	// Timeout is the time until the first repetition, which doubles; 1 s when
	// zero.
	Timeout time.Duration
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// exchange is a conversation on one interface.
type exchange struct {
	client  *nclient4.Client
	options Options
	// unusable is why the last answer was passed over.
	unusable error
}

// with opens a socket on an interface in the namespace of a descriptor. The
// interface must be up.
func with(ctx context.Context, namespace int, ifname string, o Options, do func(context.Context, *exchange) error) error {
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, longest)
		defer cancel()
	}
	x := exchange{options: o}
	err := netns.Do(namespace, func() (err error) {
		x.client, err = nclient4.New(ifname, nclient4.WithTimeout(o.Timeout), nclient4.WithRetry(-1))
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = x.client.Close() }() // nothing is buffered
	if mac := x.client.InterfaceAddr(); len(mac) != 6 {
		return fmt.Errorf("an address of %d bytes: DHCP is for Ethernet here", len(mac))
	}
	return do(ctx, &x)
}

// Acquire asks for a lease for an interface, under its present MAC address.
func Acquire(ctx context.Context, namespace int, ifname string, o Options) (Lease, error) {
	var lease Lease
	err := with(ctx, namespace, ifname, o, func(ctx context.Context, x *exchange) (err error) {
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

// Renew asks for more time. The server that gave the lease is asked, from T2 on
// any other. What it gives may differ in anything but the address, and after
// ErrRefused the address must not be used any more.
func Renew(ctx context.Context, namespace int, ifname string, l Lease, o Options) (Lease, error) {
	var lease Lease
	err := with(ctx, namespace, ifname, o, func(ctx context.Context, x *exchange) error {
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
	// A server drops what comes from no address and is not a broadcast.
	if raw, ok := conn.(*nclient4.BroadcastRawUDPConn); ok {
		conn = nclient4.NewBroadcastUDPConn(raw.PacketConn, udp(l.Address.Addr(), nclient4.ClientPort))
	}
	_, err = conn.WriteTo(message.ToBytes(), udp(l.Server, nclient4.ServerPort))
	return err
}

func udp(ip netip.Addr, port uint16) *net.UDPAddr {
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, port))
}

// message is a request with what every one has.
func (x *exchange) message(kind dhcpv4.MessageType, modifiers ...dhcpv4.Modifier) (*dhcpv4.DHCPv4, error) {
	all := []dhcpv4.Modifier{
		dhcpv4.WithHwAddr(x.client.InterfaceAddr()),
		dhcpv4.WithMessageType(kind),
		dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(nclient4.MaxMessageSize)),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionRouter,
			dhcpv4.OptionDomainNameServer, dhcpv4.OptionInterfaceMTU),
	}
	if x.options.Hostname != "" {
		all = append(all, dhcpv4.WithOption(dhcpv4.OptHostName(x.options.Hostname)))
	}
	return dhcpv4.New(append(all, modifiers...)...)
}

// lease sends a request for a lease, and reads the answer.
func (x *exchange) lease(ctx context.Context, request *dhcpv4.DHCPv4, server nclient4.Matcher) (Lease, error) {
	// The time runs from the request on (RFC 2131, 4.4.1).
	sent := x.options.Now()
	answer, err := x.ask(ctx, request, nclient4.IsAll(server,
		nclient4.IsMessageType(dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak)))
	if err != nil {
		return Lease{}, err
	}
	if answer.MessageType() == dhcpv4.MessageTypeNak {
		if reason := answer.Message(); reason != "" {
			return Lease{}, fmt.Errorf("%w: it says %q", ErrRefused, reason)
		}
		return Lease{}, ErrRefused
	}
	return readLease(answer, sent)
}

// ask sends a message again and again until a usable answer or the deadline
// comes.
func (x *exchange) ask(ctx context.Context, message *dhcpv4.DHCPv4, match nclient4.Matcher) (*dhcpv4.DHCPv4, error) {
	started := time.Now()
	answer, err := x.client.SendAndRead(ctx, nclient4.DefaultServers, message, func(p *dhcpv4.DHCPv4) bool {
		if !match(p) {
			return false
		}
		if p.MessageType() == dhcpv4.MessageTypeNak {
			return true
		}
		_, x.unusable = readLease(p, started)
		return x.unusable == nil
	})
	switch {
	case err == nil:
		return answer, nil
	case x.unusable != nil:
		return nil, x.unusable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nclient4.ErrNoResponse):
		return nil, fmt.Errorf("%w to %s within %s", ErrNoAnswer, message.MessageType(), time.Since(started).Round(time.Millisecond))
	}
	return nil, err
}
