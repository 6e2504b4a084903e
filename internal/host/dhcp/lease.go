// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Lease is an address for a time, and what came with it.
type Lease struct {
	// Address has the prefix length of the subnet mask.
	Address netip.Prefix `json:"address"`
	// MAC is the address that the lease was given to, lower case.
	MAC string `json:"mac"`
	// Gateway is the first router (option 3); invalid without one.
	Gateway netip.Addr `json:"gateway,omitzero"`
	// Routes are the classless routes (option 121); without any the default
	// route through Gateway (RFC 3442).
	Routes []Route `json:"routes,omitempty"`
	// DNS are name servers (option 6).
	DNS []netip.Addr `json:"dns,omitempty"`
	// MTU is in bytes (option 26); 0 when the server does not say.
	MTU int `json:"mtu,omitempty"`
	// Server is the server identifier (option 54).
	Server netip.Addr `json:"server"`
	// Acquired is when it was asked for; from T1 on it should be renewed, from
	// T2 on with any server, and after Expiry the address must not be used. All
	// three are zero when it does not expire.
	Acquired time.Time `json:"acquired"`
	T1       time.Time `json:"t1,omitzero"`
	T2       time.Time `json:"t2,omitzero"`
	Expiry   time.Time `json:"expiry,omitzero"`
}

// Route is a route of a lease. The gateway need not be in the lease's subnet;
// invalid, the destination is on the link.
type Route struct {
	Destination netip.Prefix `json:"destination"`
	Gateway     netip.Addr   `json:"gateway,omitzero"`
}

const (
	// shortestPrefix is that of a class A network, the largest.
	shortestPrefix = 8
	// smallestMTU is that of IPv4 (RFC 791).
	smallestMTU = 68
	forEver     = math.MaxUint32
)

// readLease reads an offer or an acknowledgement. The error is ErrUnusable.
func readLease(p *dhcpv4.DHCPv4, acquired time.Time) (Lease, error) {
	l := Lease{MAC: p.ClientHWAddr.String(), Acquired: acquired.UTC().Truncate(time.Second)}
	var err error
	if l.Address, err = readAddress(p); err != nil {
		return Lease{}, err
	}
	var ok bool
	if l.Server, ok = host(p.ServerIdentifier()); !ok {
		return Lease{}, fmt.Errorf("%w: its identifier %s is no host's address", ErrUnusable, p.ServerIdentifier())
	}
	if err := l.readRoutes(p); err != nil {
		return Lease{}, err
	}
	for _, ip := range p.DNS() {
		if ip, ok := host(ip); ok {
			l.DNS = append(l.DNS, ip)
		}
	}
	if err := l.readMTU(p); err != nil {
		return Lease{}, err
	}
	return l, l.readTimes(p)
}

func readAddress(p *dhcpv4.DHCPv4) (netip.Prefix, error) {
	ip, ok := host(p.YourIPAddr)
	if !ok {
		return netip.Prefix{}, fmt.Errorf("%w: %s is no host's address", ErrUnusable, p.YourIPAddr)
	}
	mask := p.SubnetMask()
	bits, size := mask.Size()
	if size != 32 || bits < shortestPrefix {
		return netip.Prefix{}, fmt.Errorf("%w: address %s has subnet mask %q, want one of %d to 32 bits",
			ErrUnusable, ip, net.IP(mask), shortestPrefix)
	}
	prefix := netip.PrefixFrom(ip, bits)
	if bits <= 30 && (ip == prefix.Masked().Addr() || ip == last(prefix)) {
		return netip.Prefix{}, fmt.Errorf("%w: %s is its network's own or broadcast address", ErrUnusable, prefix)
	}
	return prefix, nil
}

// last is the broadcast address.
func last(p netip.Prefix) netip.Addr {
	ip := p.Masked().Addr().As4()
	binary.BigEndian.PutUint32(ip[:], binary.BigEndian.Uint32(ip[:])|uint32(uint64(math.MaxUint32)>>p.Bits()))
	return netip.AddrFrom4(ip)
}

// host is an address that a host can have.
func host(ip net.IP) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(ip.To4())
	if !ok {
		return netip.Addr{}, false
	}
	first := a.As4()[0]
	return a, first != 0 && first < 224 && !a.IsLoopback() && !a.IsLinkLocalUnicast()
}

func (l *Lease) readRoutes(p *dhcpv4.DHCPv4) error {
	if routers := p.Router(); len(routers) > 0 {
		var ok bool
		if l.Gateway, ok = host(routers[0]); !ok {
			return fmt.Errorf("%w: router %s is no host's address", ErrUnusable, routers[0])
		}
	}
	for _, r := range p.ClasslessStaticRoute() {
		bits, size := r.Dest.Mask.Size()
		to, ok := netip.AddrFromSlice(r.Dest.IP.To4())
		if !ok || size != 32 {
			return fmt.Errorf("%w: a route to %s", ErrUnusable, r.Dest)
		}
		route := Route{Destination: netip.PrefixFrom(to, bits).Masked()}
		if !r.Router.IsUnspecified() {
			if route.Gateway, ok = host(r.Router); !ok {
				return fmt.Errorf("%w: the gateway %s of the route to %s is no host's address", ErrUnusable, r.Router, r.Dest)
			}
		}
		l.Routes = append(l.Routes, route)
	}
	if len(l.Routes) == 0 && l.Gateway.IsValid() {
		l.Routes = []Route{{Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Gateway: l.Gateway}}
	}
	return nil
}

func (l *Lease) readMTU(p *dhcpv4.DHCPv4) error {
	value := p.GetOneOption(dhcpv4.OptionInterfaceMTU)
	if value == nil {
		return nil
	}
	if len(value) == 2 {
		l.MTU = int(binary.BigEndian.Uint16(value))
	}
	if l.MTU < smallestMTU {
		return fmt.Errorf("%w: MTU %d, want %d or more", ErrUnusable, l.MTU, smallestMTU)
	}
	return nil
}

func (l *Lease) readTimes(p *dhcpv4.DHCPv4) error {
	lasts := p.IPAddressLeaseTime(0)
	if lasts <= 0 {
		return fmt.Errorf("%w: a lease of no time", ErrUnusable)
	}
	if lasts == forEver*time.Second {
		return nil
	}
	// The defaults of RFC 2131, 4.4.5, also for times in the wrong order.
	t2 := p.IPAddressRebindingTime(0)
	if t2 <= 0 || t2 >= lasts {
		t2 = lasts * 7 / 8
	}
	t1 := p.IPAddressRenewalTime(0)
	if t1 <= 0 || t1 >= t2 {
		t1 = min(lasts/2, t2)
	}
	l.T1, l.T2, l.Expiry = l.Acquired.Add(t1), l.Acquired.Add(t2), l.Acquired.Add(lasts)
	return nil
}
