// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addresspool

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"
)

// MostBlocks is how many blocks a subnet may be cut into.
const MostBlocks = 1 << 16

// Subnet is a subnet whose addresses are given out.
type Subnet struct {
	Prefix netip.Prefix
	// BlockBits is the prefix length of a node's block.
	BlockBits int
	// Gateway is the zero Addr where there is none.
	Gateway netip.Addr
	// Exclude are never given out. What of them is outside of the subnet is of no
	// consequence.
	Exclude []netip.Prefix
}

// Validate refuses what cannot be cut into blocks.
func (s Subnet) Validate() error {
	if !s.Prefix.IsValid() || s.Prefix != s.Prefix.Masked() {
		return fmt.Errorf("cidr: %s: want the subnet's first address with its prefix length, such as %s", s.Prefix, s.Prefix.Masked())
	}
	var errs []error
	if most := s.Prefix.Addr().BitLen(); s.BlockBits < s.Prefix.Bits() || s.BlockBits > most {
		errs = append(errs, fmt.Errorf("blockSize: %d: want a prefix length of %d-%d", s.BlockBits, s.Prefix.Bits(), most))
	} else if s.BlockBits-s.Prefix.Bits() > 16 {
		errs = append(errs, fmt.Errorf("blockSize: %d: would cut %s into more than %d blocks: want at most %d", s.BlockBits, s.Prefix, MostBlocks, s.Prefix.Bits()+16))
	}
	if s.Gateway.IsValid() && !s.Prefix.Contains(s.Gateway) {
		errs = append(errs, fmt.Errorf("gateway: %s: want an address of %s", s.Gateway, s.Prefix))
	}
	return errors.Join(errs...)
}

// Blocks is how many blocks the subnet has.
func (s Subnet) Blocks() int { return 1 << (s.BlockBits - s.Prefix.Bits()) }

// Block is the block of a number, from 0 on.
func (s Subnet) Block(number int) netip.Prefix {
	step := new(big.Int).Lsh(big.NewInt(int64(number)), uint(s.Prefix.Addr().BitLen()-s.BlockBits))
	return netip.PrefixFrom(plus(s.Prefix.Addr(), step), s.BlockBits)
}

// Touched are the numbers of the first and of the last block that share addresses with a
// prefix; ok is false where none does.
func (s Subnet) Touched(p netip.Prefix) (first, last int, ok bool) {
	switch {
	case !p.Overlaps(s.Prefix):
		return 0, 0, false
	case p.Bits() <= s.Prefix.Bits():
		return 0, s.Blocks() - 1, true
	}
	p = p.Masked()
	return s.number(p.Addr()), s.number(lastOf(p)), true
}

// number is that of the block with an address of the subnet.
func (s Subnet) number(a netip.Addr) int {
	offset := new(big.Int).SetBytes(a.AsSlice())
	offset.Sub(offset, new(big.Int).SetBytes(s.Prefix.Addr().AsSlice()))
	return int(offset.Rsh(offset, uint(s.Prefix.Addr().BitLen()-s.BlockBits)).Int64())
}

// Barren are the numbers of the blocks that have no address to give: those that exclude has
// whole, and small ones of reserved addresses.
func (s Subnet) Barren() map[int]bool {
	barren, partly := map[int]bool{}, map[int]bool{s.number(s.Prefix.Addr()): true, s.number(lastOf(s.Prefix)): true}
	if s.Gateway.IsValid() {
		partly[s.number(s.Gateway)] = true
	}
	for _, e := range s.Exclude {
		first, last, ok := s.Touched(e)
		for number := first; ok && number <= last; number++ {
			if e.Bits() <= s.BlockBits {
				barren[number] = true
			} else {
				partly[number] = true
			}
		}
	}
	for number := range partly {
		if _, ok := (Part{Subnet: s, Range: s.Block(number)}).pick("", func(netip.Addr) bool { return false }); !ok {
			barren[number] = true
		}
	}
	return barren
}

// Usable says whether an address may be given out.
func (s Subnet) Usable(a netip.Addr) bool {
	if !s.Prefix.Contains(a) || a == s.Gateway {
		return false
	}
	for _, e := range s.Exclude {
		if e.Contains(a) {
			return false
		}
	}
	return !s.reserved(a)
}

// reserved are the addresses that no station has: the subnet's own and its broadcast
// address of IPv4, and of IPv6 the one of all its routers (RFC 4291, 2.6.1). Subnets of two
// addresses and of one have none (RFC 3021, RFC 6164).
func (s Subnet) reserved(a netip.Addr) bool {
	if s.Prefix.Bits() >= s.Prefix.Addr().BitLen()-1 {
		return false
	}
	return a == s.Prefix.Addr() || a.Is4() && a == lastOf(s.Prefix)
}

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	bits := uint(p.Addr().BitLen() - p.Bits())
	size := new(big.Int).Lsh(big.NewInt(1), bits)
	return plus(p.Addr(), size.Sub(size, big.NewInt(1)))
}

// plus is the address a number further on, within the family.
func plus(a netip.Addr, n *big.Int) netip.Addr {
	sum := new(big.Int).SetBytes(a.AsSlice())
	sum.Add(sum, n)
	bytes := make([]byte, a.BitLen()/8)
	sum.FillBytes(bytes)
	out, _ := netip.AddrFromSlice(bytes)
	return out
}

// ParseSubnet reads a subnet from the words of a pool; the error begins with the field.
func ParseSubnet(cidr string, blockBits int, gateway string, exclude []string) (Subnet, error) {
	s := Subnet{BlockBits: blockBits}
	var err error
	if s.Prefix, err = netip.ParsePrefix(cidr); err != nil {
		return s, fmt.Errorf("cidr: %q: want a subnet such as 192.168.111.0/24", cidr)
	}
	if gateway != "" {
		if s.Gateway, err = netip.ParseAddr(gateway); err != nil {
			return s, fmt.Errorf("gateway: %q: want an address", gateway)
		}
	}
	for i, text := range exclude {
		prefix, err := parseExclude(text)
		if err != nil {
			return s, fmt.Errorf("exclude[%d]: %q: want an address or a subnet", i, text)
		}
		s.Exclude = append(s.Exclude, prefix)
	}
	return s, s.Validate()
}

func parseExclude(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}
