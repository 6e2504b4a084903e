// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addresspool

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/big"
	"net/netip"
)

// Block is what a node has of a pool.
type Block struct {
	// Pool and Name are those of the objects.
	Pool, Name string
	// Parts are one of each family of the pool.
	Parts []Part
	// Routes are those of claims that have none of their own.
	Routes []Route
	// Closed says why no more addresses are given out, as a clause; empty where some are.
	Closed string
}

// Part is a block's range of one subnet.
type Part struct {
	Subnet
	Range netip.Prefix
}

// Route is a route through the interface. Gateway is the zero Addr where there is none.
type Route struct {
	Destination netip.Prefix
	Gateway     netip.Addr
}

// FullError says that no address of a block is free.
type FullError struct{ err error }

func (e FullError) Error() string { return e.err.Error() }

// most bounds how many addresses of a range are tried: a block of IPv6 may have more than
// anybody can count, and no node has as many claims.
const most = 1 << 16

// Pick chooses an address of each part with its subnet's prefix length. The search begins at
// a place that the key decides, so that an address that has just been given back is not
// the next one's, to whom its neighbours would still send. It is the same for the same
// key and use.
func (b Block) Pick(key string, used func(netip.Addr) bool) ([]netip.Prefix, error) {
	if b.Closed != "" {
		return nil, fmt.Errorf("block %s of pool %s %s", b.Name, b.Pool, b.Closed)
	}
	var picked []netip.Prefix
	for _, p := range b.Parts {
		a, ok := p.pick(key, used)
		if !ok {
			return nil, FullError{fmt.Errorf("block %s (%s) of pool %s has no free address", b.Name, p.Range, b.Pool)}
		}
		picked = append(picked, netip.PrefixFrom(a, p.Prefix.Bits()))
	}
	return picked, nil
}

func (p Part) pick(key string, used func(netip.Addr) bool) (netip.Addr, bool) {
	n := p.size()
	sum := sha256.Sum256([]byte(key))
	start := binary.BigEndian.Uint64(sum[:8]) % n
	for i := range n {
		a := plus(p.Range.Addr(), new(big.Int).SetUint64((start+i)%n))
		if p.Usable(a) && !used(a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// size is how many addresses of the range are tried.
func (p Part) size() uint64 {
	bits := p.Range.Addr().BitLen() - p.Range.Bits()
	if bits > 16 {
		return most
	}
	return 1 << bits
}

// Contains says whether an address is of the block.
func (b Block) Contains(a netip.Addr) bool {
	for _, p := range b.Parts {
		if p.Range.Contains(a) {
			return true
		}
	}
	return false
}
