// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/api/v1alpha1"
)

// Bounds of SourceRouting. A cloud lets an interface have hundreds of addresses;
// each rule costs every packet of the pod a look.
const (
	maxSources  = 32
	minBits     = 8
	maxBits     = 30
	linkScope   = 253
	defaultDest = "0.0.0.0/0"
)

// SourceRouting is the layer of parameters for an interface whose network drops
// what comes from another interface's addresses, as the virtual networks of clouds
// do: what the pod sends from one of the addresses leaves by this interface, to
// the subnet at once and to all else by the subnet's router, its first address. It
// stands in a table of its own, since the pod's default route is its cluster
// network's.
//
// 10.9.0.0/24 with 10.9.0.4 in table 101 is:
//
//	ip rule add from 10.9.0.4 table 101
//	ip route add 10.9.0.0/24 dev net1 scope link table 101
//	ip route add default via 10.9.0.1 dev net1 onlink table 101
func SourceRouting(table int64, subnet netip.Prefix, addresses []netip.Addr) ([]byte, error) {
	switch {
	case !subnet.IsValid() || !subnet.Addr().Is4() || subnet != subnet.Masked() || !subnet.Addr().IsGlobalUnicast():
		return nil, fmt.Errorf("subnet %s: want a network of IPv4, such as 10.9.0.0/24", subnet)
	case subnet.Bits() < minBits || subnet.Bits() > maxBits:
		return nil, fmt.Errorf("subnet %s: want a prefix of %d to %d bits", subnet, minBits, maxBits)
	}
	gateway := subnet.Addr().Next()
	var c v1alpha1.NetworkConfig
	for _, a := range slices.Compact(slices.SortedFunc(slices.Values(addresses), netip.Addr.Compare)) {
		switch {
		case !subnet.Contains(a) || a == gateway:
			return nil, fmt.Errorf("address %s: want one of subnet %s that is not its router's", a, subnet)
		case len(c.Rules) == maxSources:
			return nil, fmt.Errorf("%d addresses: want at most %d", len(addresses), maxSources)
		}
		c.Rules = append(c.Rules, v1alpha1.RuleConfig{Source: ptr.To(netip.PrefixFrom(a, 32).String()), Table: &table})
	}
	if len(c.Rules) == 0 {
		return nil, errors.New("no address")
	}
	c.Routes = []v1alpha1.RouteConfig{
		{Destination: ptr.To(subnet.String()), Scope: ptr.To[int32](linkScope), Table: &table},
		{Destination: ptr.To(defaultDest), Gateway: ptr.To(gateway.String()), OnLink: ptr.To(true), Table: &table},
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return json.Marshal(c)
}
