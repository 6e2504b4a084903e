// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"net/netip"
	"slices"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/addresspool"
	"plumbline.dev/plumbline/internal/driver"
)

// Pools are the pools of addresses that the node has blocks of.
type Pools interface {
	// Block is the node's block of a pool, or why it has none.
	Block(pool string) (addresspool.Block, error)
}

// blockFacts are a block as it was read, or why there is none.
type blockFacts struct {
	block addresspool.Block
	err   error
}

// readBlock reads the block of a pool that a configuration names.
func (d *Driver) readBlock(c *v1alpha1.NetworkConfig, into map[string]blockFacts) {
	if c == nil || c.Interface.IPAM == nil || c.Interface.IPAM.Pool == nil {
		return
	}
	name := *c.Interface.IPAM.Pool
	if _, known := into[name]; known {
		return
	}
	if d.pools == nil {
		into[name] = blockFacts{err: fmt.Errorf("pool %q: this agent serves no pools of addresses", name)}
		return
	}
	block, err := d.pools.Block(name)
	into[name] = blockFacts{block: block, err: err}
}

// FromPool says whether the parameters of one of a claim's NICs take addresses from a pool:
// which of them are free the records alone know.
func FromPool(c driver.Claim) bool {
	return slices.ContainsFunc(c.Devices, func(a driver.Allocation) bool {
		merged, err := merge(a.Configs)
		return err == nil && merged.Interface.IPAM != nil
	})
}

// fromPool is a configuration with the addresses and routes that its pool gives, and the
// block that they are from: from here on it is as if the claim had written them.
func (p planner) fromPool(a driver.Allocation, c *v1alpha1.NetworkConfig) (given *v1alpha1.NetworkConfig, block string, err error) {
	if c.Interface.IPAM == nil {
		return c, "", nil
	}
	name := *c.Interface.IPAM.Pool
	known := p.facts.blocks[name]
	if known.err != nil {
		return nil, "", fmt.Errorf("interface.ipam.pool: %w", known.err)
	}
	share := ""
	if a.ShareID != nil {
		share = string(*a.ShareID)
	}
	picked := p.kept(a, share, known.block)
	if picked == nil {
		// Those of before a reboot are their claims' until these end.
		held, err := readHeld(slices.DeleteFunc(slices.Clone(p.claim.Before), func(r driver.Record) bool { return r.Claim.UID == p.claim.UID }))
		if err != nil {
			return nil, "", err
		}
		before := heldAddresses(held)
		key := fmt.Sprintf("%s/%s/%s/%s", p.claim.UID, a.Request, a.Device, share)
		if picked, err = known.block.Pick(key, func(x netip.Addr) bool { return p.addresses[x] || before[x] }); err != nil {
			return nil, "", fmt.Errorf("interface.ipam.pool: %q: %w", name, err)
		}
	}
	given = new(*c)
	given.Interface.IPAM, given.Interface.Addresses = nil, nil
	for _, prefix := range picked {
		p.addresses[prefix.Addr()] = true
		given.Interface.Addresses = append(given.Interface.Addresses, prefix.String())
	}
	if given.Routes == nil {
		given.Routes = poolRoutes(known.block)
	}
	return given, known.block.Name, nil
}

// kept are the addresses of a block that the claim has for a device since before the node was
// started anew; nil where it has none. They are its own until it ends, also where nobody else
// would get them any more.
func (p planner) kept(a driver.Allocation, share string, b addresspool.Block) []netip.Prefix {
	for _, r := range p.claim.Before {
		if r.Claim.UID != p.claim.UID {
			continue
		}
		for _, d := range r.Devices {
			if d.Request != a.Request || d.Device != a.Device || d.ShareID != share {
				continue
			}
			plan, err := readBrief(d)
			if err != nil || plan.Block != b.Name || plan.Pod == nil || len(plan.Pod.Addresses) != len(b.Parts) {
				return nil
			}
			if slices.ContainsFunc(plan.Pod.Addresses, func(x netip.Prefix) bool { return p.addresses[x.Addr()] || !b.Contains(x.Addr()) }) {
				return nil
			}
			return plan.Pod.Addresses
		}
	}
	return nil
}

// poolRoutes are the routes of a pool, in the words of a claim.
func poolRoutes(b addresspool.Block) []v1alpha1.RouteConfig {
	var routes []v1alpha1.RouteConfig
	for _, r := range b.Routes {
		destination := r.Destination.String()
		route := v1alpha1.RouteConfig{Destination: &destination}
		if r.Gateway.IsValid() {
			gateway := r.Gateway.String()
			route.Gateway = &gateway
		} else {
			link := int32(253)
			route.Scope = &link
		}
		routes = append(routes, route)
	}
	return routes
}

// BlocksOf are the blocks of addresses that a record takes from.
func BlocksOf(r driver.Record) ([]string, error) {
	var blocks []string
	for _, d := range r.Devices {
		plan, err := readBrief(d)
		if err != nil {
			return nil, err
		}
		if plan.Block != "" && !slices.Contains(blocks, plan.Block) {
			blocks = append(blocks, plan.Block)
		}
	}
	return blocks, nil
}

// heldAddresses are those that records give to interfaces, whoever chose them.
func heldAddresses(held []heldDevice) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, d := range held {
		for _, a := range d.plan.addresses() {
			all[a] = true
		}
	}
	return all
}

// Addresses are those that a record gives to interfaces in pods, whoever chose them.
func Addresses(r driver.Record) ([]netip.Addr, error) {
	var all []netip.Addr
	for _, d := range r.Devices {
		plan, err := readBrief(d)
		if err != nil {
			return nil, err
		}
		all = append(all, plan.addresses()...)
	}
	return all, nil
}

// addresses are those that the plan gives to its interface.
func (p Plan) addresses() []netip.Addr {
	if p.Pod == nil {
		return nil
	}
	var all []netip.Addr
	for _, prefix := range p.Pod.Addresses {
		all = append(all, prefix.Addr())
	}
	return all
}
