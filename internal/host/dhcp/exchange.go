// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"

	"plumbline.dev/plumbline/internal/host/netns"
)

// longest is how long a request takes at most when its context has no deadline.
const longest = 10 * time.Second

// exchange is a conversation on one interface.
type exchange struct {
	client  *nclient4.Client
	options Options
	// unusable is why the last answer was skipped.
	unusable error
}

// withSocket opens a socket on an interface in the namespace of a descriptor. The
// interface must be up.
func withSocket(ctx context.Context, namespace int, ifname string, o Options, do func(context.Context, *exchange) error) error {
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

// message is a request with the options that each has.
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

// ask sends a message, and repeats it until a valid answer or the deadline.
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
