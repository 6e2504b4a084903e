// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"errors"

	"plumbline.dev/plumbline/internal/host/sysctl"
)

// setForwarding lets packets that come in by the interface go out by another,
// or not. IPv4 decides by the interface (net/ipv4/route.c, ip_route_input_slow).
// IPv6 decides by the whole namespace until Linux 6.17, which has
// force_forwarding (net/ipv6/ip6_output.c, ip6_forward); the interface's own
// forwarding says there whether it behaves as a router's.
func setForwarding(net sysctl.Net, name string, on bool) error {
	value := "0"
	if on {
		value = "1"
	}
	if err := net.Write(name, "ipv4/conf/forwarding", value); err != nil {
		return err
	}
	err := net.Write(name, "ipv6/conf/forwarding", value)
	if errors.Is(err, sysctl.ErrLacks) {
		return nil // no IPv6 here
	}
	if err != nil {
		return err
	}
	err = net.Write(name, "ipv6/conf/force_forwarding", value)
	if !errors.Is(err, sysctl.ErrLacks) {
		return err
	}
	if !on {
		return nil // the namespace's own switch may be another's
	}
	return net.WriteAll("ipv6/conf/forwarding", value)
}
