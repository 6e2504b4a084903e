// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addresspool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

func subnet(prefix string, bits int) Subnet {
	return Subnet{Prefix: netip.MustParsePrefix(prefix), BlockBits: bits}
}

func TestBlocks(t *testing.T) {
	for _, tt := range []struct {
		subnet Subnet
		blocks int
		number int
		want   string
	}{
		{subnet("192.168.111.0/24", 28), 16, 0, "192.168.111.0/28"},
		{subnet("192.168.111.0/24", 28), 16, 15, "192.168.111.240/28"},
		{subnet("10.0.0.0/8", 24), 65536, 257, "10.1.1.0/24"},
		{subnet("fd00:1::/64", 80), 65536, 65535, "fd00:1:0:0:ffff::/80"},
		{subnet("192.168.111.0/24", 24), 1, 0, "192.168.111.0/24"},
	} {
		if n, b := tt.subnet.Blocks(), tt.subnet.Block(tt.number); n != tt.blocks || b != netip.MustParsePrefix(tt.want) {
			t.Errorf("%+v: %d blocks, number %d is %s; want %d, %s", tt.subnet, n, tt.number, b, tt.blocks, tt.want)
		}
	}
}

// No two blocks overlap, and together they are the subnet.
func TestBlocksAreApart(t *testing.T) {
	for _, s := range []Subnet{subnet("10.1.2.0/23", 29), subnet("fd00::/120", 124)} {
		seen := map[netip.Addr]int{}
		for n := range s.Blocks() {
			b := s.Block(n)
			for a := b.Addr(); b.Contains(a); a = a.Next() {
				if other, twice := seen[a]; twice || !s.Prefix.Contains(a) {
					t.Fatalf("%s: %s is in block %d and in %d", s.Prefix, a, n, other)
				}
				seen[a] = n
			}
		}
		if want := 1 << (s.Prefix.Addr().BitLen() - s.Prefix.Bits()); len(seen) != want {
			t.Errorf("%s: %d addresses are in blocks, want %d", s.Prefix, len(seen), want)
		}
	}
}

// The blocks that a prefix touches are those that overlap it, whichever contains the other.
func TestTouched(t *testing.T) {
	for _, s := range []Subnet{subnet("10.1.2.0/23", 29), subnet("fd00::/120", 124)} {
		bits := s.Prefix.Addr().BitLen()
		tried := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
		for b := s.Prefix.Bits() - 2; b <= bits; b++ {
			for n := range s.Blocks() {
				tried = append(tried, netip.PrefixFrom(s.Block(n).Addr(), b))
			}
		}
		for _, p := range tried {
			var want []int
			for n := range s.Blocks() {
				if s.Block(n).Overlaps(p) {
					want = append(want, n)
				}
			}
			first, last, ok := s.Touched(p)
			if ok != (len(want) > 0) || ok && (first != want[0] || last != want[len(want)-1]) {
				t.Fatalf("%s touches of %s blocks %d-%d, %t; want %v", p, s.Prefix, first, last, ok, want)
			}
		}
	}
}

// A block is barren where none of its addresses can be given out.
func TestBarren(t *testing.T) {
	for _, s := range []Subnet{
		{Prefix: netip.MustParsePrefix("10.0.0.0/24"), BlockBits: 28, Exclude: prefixes("10.0.0.0/26", "10.0.0.240/29", "10.0.0.248/29", "10.0.0.80/29", "11.0.0.0/8")},
		{Prefix: netip.MustParsePrefix("10.0.0.0/28"), BlockBits: 32, Gateway: netip.MustParseAddr("10.0.0.9"), Exclude: prefixes("10.0.0.3/32")},
		{Prefix: netip.MustParsePrefix("10.0.0.0/31"), BlockBits: 32},
		{Prefix: netip.MustParsePrefix("fd00::/120"), BlockBits: 126, Exclude: prefixes("fd00::80/121", "fd00::1/128")},
	} {
		got := s.Barren()
		for n := range s.Blocks() {
			usable := false
			for a, b := s.Block(n).Addr(), s.Block(n); b.Contains(a); a = a.Next() {
				usable = usable || s.Usable(a)
			}
			if got[n] == usable {
				t.Errorf("%s: block %s: barren %t", s.Prefix, s.Block(n), got[n])
			}
		}
	}
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// An exclusion that is not of the subnet keeps nobody from its addresses.
func TestExcludeElsewhere(t *testing.T) {
	s, err := ParseSubnet("10.0.0.0/24", 28, "", []string{"11.0.0.0/8", "10.0.1.7", "fd00::1", "10.0.0.9"})
	if err != nil || !s.Usable(netip.MustParseAddr("10.0.0.8")) || s.Usable(netip.MustParseAddr("10.0.0.9")) {
		t.Errorf("subnet %+v, %v; want 10.0.0.8 and not 10.0.0.9", s, err)
	}
}

func TestUsable(t *testing.T) {
	four := subnet("192.168.111.0/24", 28)
	four.Gateway = netip.MustParseAddr("192.168.111.1")
	four.Exclude = []netip.Prefix{netip.MustParsePrefix("192.168.111.16/30"), netip.MustParsePrefix("192.168.111.9/32")}
	six := subnet("fd00::/64", 80)
	for address, want := range map[string]bool{
		"192.168.111.0": false, "192.168.111.1": false, "192.168.111.2": true, "192.168.111.9": false, "192.168.111.15": true,
		"192.168.111.17": false, "192.168.111.20": true, "192.168.111.255": false, "192.168.112.2": false,
	} {
		if got := four.Usable(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %t, want %t", address, got, want)
		}
	}
	for address, want := range map[string]bool{"fd00::": false, "fd00::1": true, "fd00::ffff:ffff:ffff:ffff": true, "fd01::1": false} {
		if got := six.Usable(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %t, want %t", address, got, want)
		}
	}
	if point := subnet("10.0.0.0/31", 31); !point.Usable(netip.MustParseAddr("10.0.0.0")) || !point.Usable(netip.MustParseAddr("10.0.0.1")) {
		t.Error("10.0.0.0/31: want both addresses (RFC 3021)")
	}
}

func TestValidate(t *testing.T) {
	for want, s := range map[string]Subnet{
		"":                              subnet("10.0.0.0/16", 24),
		"cidr: 10.0.0.1/16: want":       subnet("10.0.0.1/16", 24),
		"blockSize: 15: want":           subnet("10.0.0.0/16", 15),
		"blockSize: 33: want":           subnet("10.0.0.0/16", 33),
		"would cut fd00::/64 into more": subnet("fd00::/64", 96),
		"gateway: 10.1.0.1: want":       {Prefix: netip.MustParsePrefix("10.0.0.0/16"), BlockBits: 24, Gateway: netip.MustParseAddr("10.1.0.1")},
	} {
		got := ""
		if err := s.Validate(); err != nil {
			got = err.Error()
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

func block(closed string) Block {
	four, six := subnet("192.168.111.0/24", 28), subnet("fd00::/64", 80)
	four.Gateway = netip.MustParseAddr("192.168.111.17")
	return Block{Pool: "fabric", Name: "fabric.1", Closed: closed, Parts: []Part{
		{Subnet: four, Range: four.Block(1)}, {Subnet: six, Range: six.Block(1)},
	}}
}

// Addresses come and go in any order: none is had twice, none outside of the block, and all of
// it can be had.
func TestPick(t *testing.T) {
	b := block("")
	r := rand.New(rand.NewPCG(1, 2))
	used := map[netip.Addr]bool{}
	held := map[string][]netip.Prefix{}
	full := 0
	for i := range 5000 {
		key := fmt.Sprintf("claim-%d", i)
		picked, err := b.Pick(key, func(a netip.Addr) bool { return used[a] })
		var isFull FullError
		switch {
		case errors.As(err, &isFull) && len(held) == 15: // of 16, the gateway
			full++
		case err != nil:
			t.Fatalf("with %d held: %v", len(held), err)
		default:
			for _, p := range picked {
				if used[p.Addr()] || !b.Contains(p.Addr()) || p.Addr() == netip.MustParseAddr("192.168.111.17") {
					t.Fatalf("picked %s of %v", p, held)
				}
				used[p.Addr()] = true
			}
			if picked[0].Bits() != 24 || picked[1].Bits() != 64 {
				t.Fatalf("picked %v: want the subnets' prefix lengths", picked)
			}
			held[key] = picked
		}
		for key, had := range held {
			if r.IntN(17) == 0 {
				for _, p := range had {
					delete(used, p.Addr())
				}
				delete(held, key)
			}
		}
	}
	if full == 0 {
		t.Error("the block was never full: this test proves less than it should")
	}
	again, err := b.Pick("same", func(netip.Addr) bool { return false })
	same, err2 := b.Pick("same", func(netip.Addr) bool { return false })
	if err != nil || err2 != nil || again[0] != same[0] || again[1] != same[1] {
		t.Errorf("the same key picked %v and %v; %v, %v", again, same, err, err2)
	}
	if _, err := block("is being given back").Pick("a", func(netip.Addr) bool { return false }); err == nil || !strings.Contains(err.Error(), "block fabric.1 of pool fabric is being given back") {
		t.Errorf("a closed block: %v", err)
	}
}
