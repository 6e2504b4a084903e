// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addresspools

import (
	"errors"
	"fmt"
	"net/netip"

	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/internal/addresspool"
)

// subnetsOf reads a pool's subnets. The API server has refused what is none.
func subnetsOf(pool *nets.NetworkAddressPool) ([]addresspool.Subnet, error) {
	var subnets []addresspool.Subnet
	var errs []error
	for i, s := range pool.Spec.Subnets {
		subnet, err := addresspool.ParseSubnet(s.CIDR, int(s.BlockSize), s.Gateway, s.Exclude)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.subnets[%d].%w", i, err))
		}
		subnets = append(subnets, subnet)
	}
	return subnets, errors.Join(errs...)
}

// blockCount is how many blocks a pool has: its smallest subnet decides.
func blockCount(subnets []addresspool.Subnet) int {
	n := addresspool.MostBlocks
	for _, s := range subnets {
		n = min(n, s.Blocks())
	}
	return n
}

// rangesOf are those of a block.
func rangesOf(subnets []addresspool.Subnet, number int) []string {
	var ranges []string
	for _, s := range subnets {
		ranges = append(ranges, s.Block(number).String())
	}
	return ranges
}

// overlap says which older pool a pool shares addresses with, as a clause; empty for none.
// Of two of one age the name decides.
func overlap(pool *nets.NetworkAddressPool, all []nets.NetworkAddressPool) string {
	for i := range all {
		other := &all[i]
		if other.UID == pool.UID || !older(other, pool) {
			continue
		}
		for _, mine := range pool.Spec.Subnets {
			for _, theirs := range other.Spec.Subnets {
				a, err := netip.ParsePrefix(mine.CIDR)
				b, err2 := netip.ParsePrefix(theirs.CIDR)
				if err == nil && err2 == nil && a.Overlaps(b) {
					return fmt.Sprintf("subnet %s overlaps %s of pool %s", a, b, other.Name)
				}
			}
		}
	}
	return ""
}

func older(a, b *nets.NetworkAddressPool) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}
