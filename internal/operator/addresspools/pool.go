// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addresspools

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

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

// barrenOf are the numbers of blocks of which nobody could get an address.
func barrenOf(subnets []addresspool.Subnet) map[int]bool {
	barren := map[int]bool{}
	for _, s := range subnets {
		maps.Copy(barren, s.Barren())
	}
	maps.DeleteFunc(barren, func(number int, _ bool) bool { return number >= blockCount(subnets) })
	return barren
}

// rangesOf are those of a block.
func rangesOf(subnets []addresspool.Subnet, number int) []string {
	var ranges []string
	for _, s := range subnets {
		ranges = append(ranges, s.Block(number).String())
	}
	return ranges
}

// wrongWith says why a pool gets no more blocks, as a clause; empty where it gets them.
func wrongWith(pool *nets.NetworkAddressPool, subnets []addresspool.Subnet, pools []nets.NetworkAddressPool, nodes []corev1.Node, services []networkingv1.ServiceCIDR) string {
	return cmp.Or(overlap(pool, pools), overlapService(subnets, services), overlapNode(subnets, nodes))
}

// overlap says which older pool a pool shares addresses with. Of two of one age the name
// decides.
func overlap(pool *nets.NetworkAddressPool, all []nets.NetworkAddressPool) string {
	for i := range all {
		other := &all[i]
		if other.UID == pool.UID || !older(other, pool) {
			continue
		}
		for _, mine := range pool.Spec.Subnets {
			for _, theirs := range other.Spec.Subnets {
				if overlapping(mine.CIDR, theirs.CIDR) {
					return fmt.Sprintf("subnet %s overlaps %s of pool %s", mine.CIDR, theirs.CIDR, other.Name)
				}
			}
		}
	}
	return ""
}

func overlapping(a, b string) bool {
	first, err := netip.ParsePrefix(a)
	second, err2 := netip.ParsePrefix(b)
	return err == nil && err2 == nil && first.Overlaps(second)
}

func older(a, b *nets.NetworkAddressPool) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// overlapService says whether addresses of Services are a pool's: a pod that has one
// answers for the Service.
func overlapService(subnets []addresspool.Subnet, services []networkingv1.ServiceCIDR) string {
	for _, s := range subnets {
		for _, c := range services {
			for _, text := range c.Spec.CIDRs {
				if overlapping(s.Prefix.String(), text) {
					return fmt.Sprintf("subnet %s overlaps %s of ServiceCIDR %s", s.Prefix, text, c.Name)
				}
			}
		}
	}
	return ""
}

// overlapNode says whether the pods of a node's own network have addresses of a pool, or the
// node one that would be given out. Nodes may have addresses of the subnet that exclude has:
// the network of a pool is that of its NICs.
func overlapNode(subnets []addresspool.Subnet, nodes []corev1.Node) string {
	for _, s := range subnets {
		for i := range nodes {
			n := &nodes[i]
			for _, text := range n.Spec.PodCIDRs {
				if overlapping(s.Prefix.String(), text) {
					return fmt.Sprintf("subnet %s overlaps %s, the podCIDR of node %s", s.Prefix, text, n.Name)
				}
			}
			for _, a := range n.Status.Addresses {
				if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && s.Usable(ip) {
					return fmt.Sprintf("subnet %s has %s, the InternalIP of node %s: want it in exclude", s.Prefix, ip, n.Name)
				}
			}
		}
	}
	return ""
}

// takenBy are the numbers of blocks of which another pool's block has addresses, by that
// block's name: there are some where pools that overlap were made in one second, and the
// younger in name had its blocks first.
func takenBy(pool string, subnets []addresspool.Subnet, blocks []nets.NetworkAddressBlock) map[int]string {
	taken := map[int]string{}
	for i := range blocks {
		b := &blocks[i]
		if b.Spec.Pool == pool {
			continue
		}
		for _, text := range b.Spec.Ranges {
			theirs, err := netip.ParsePrefix(text)
			if err != nil {
				continue
			}
			for _, s := range subnets {
				first, last, ok := s.Touched(theirs)
				for number := first; ok && number <= min(last, blockCount(subnets)-1); number++ {
					taken[number] = b.Name
				}
			}
		}
	}
	return taken
}
