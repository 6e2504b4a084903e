// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"

	"plumbline.dev/plumbline/internal/host/netns"
)

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
