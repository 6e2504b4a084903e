// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"net/netip"
)

// Links reads the links of one network namespace by netlink.
type Links interface {
	// Links lists all links.
	Links(ctx context.Context) ([]LinkFacts, error)
	// Subscribe sends a value when a link, an address, a route, a rule or a
	// device may have changed. The channel is closed when events were lost or ctx
	// ended; a caller then subscribes again and reads everything.
	Subscribe(ctx context.Context) (<-chan struct{}, error)
}

// LinkFacts are one link's facts from rtnetlink. Nil is unknown.
type LinkFacts struct {
	Name  string
	Index int
	// MAC and PermanentMAC are lower case (IFLA_ADDRESS, IFLA_PERM_ADDRESS).
	MAC, PermanentMAC *string
	MTU               *int
	// Up is the administrator's IFF_UP, not the carrier.
	Up *bool
	// State is spelled as in sysfs's operstate, such as "up" (IFLA_OPERSTATE).
	State *string
	// Encapsulation is the link layer: ether, infiniband, loopback (ifi_type).
	Encapsulation *string
	// Kind is IFLA_INFO_KIND, such as veth; nil for hardware.
	Kind  *string
	Alias *string
	// Master is the ifindex of the bridge, bond, team or VRF the link is a
	// port of (IFLA_MASTER).
	Master *int
	// Lower are the ifindexes of the links below this one in the same namespace,
	// such as a VLAN's or a VXLAN's parent, but for the ports of a master.
	Lower []int
	// Addresses are the global ones, sorted.
	Addresses []netip.Prefix
	// Uplink says why the node itself needs the link, such as "carries the
	// default route"; nil when it does not.
	Uplink *string
}
