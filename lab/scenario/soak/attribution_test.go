// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Cycles 1 and 2 live at a time, on NICs a and b; 3 comes when 1 has ended.
func TestAttribution(t *testing.T) {
	const a, b, namespace = "nic a eth0 mtu=1500", "nic b eth1 mtu=1500", "namespace cni-1"
	before := State{Lines: []string{a, b}}
	for name, tt := range map[string]struct {
		// first is how the node is while both live, last when 1 or 2 ends.
		first, last []string
		one, two    []string
		// third is what cycle 3 has to wait for when 1 and 2 have ended.
		third []string
	}{
		"as before":       {first: before.Lines, last: before.Lines},
		"both hold a NIC": {last: nil, one: []string{"cycle 1: gone or changed: " + a}, two: []string{"cycle 2: gone or changed: " + b}},
		"a NIC came back changed": {
			first: []string{b}, last: []string{"nic a eth0 mtu=9000", b},
			one: []string{"cycle 1: gone or changed: " + a, "cycle 1: new: nic a eth0 mtu=9000"},
		},
		"a namespace stays": {
			first: []string{a, b, namespace}, last: []string{a, b, namespace},
			two: []string{"one of cycles 1, 2: new: " + namespace},
		},
		"a namespace of 3 or 2": {
			first: []string{a, b}, last: []string{a, b, namespace},
			third: []string{"one of cycles 2, 3: new: " + namespace},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewAttribution(before)
			l.mark(1, "nic a ")
			l.mark(2, "nic b ")
			l.see(State{Lines: tt.first})
			if name != "a namespace of 3 or 2" {
				l.see(State{Lines: tt.last})
			}
			check(t, "cycle 1", l.unresolved(1, ""), tt.one)
			l.end(1)
			check(t, "cycle 2", l.unresolved(2, ""), tt.two)
			l.mark(3, "nic a ")
			l.see(State{Lines: tt.last})
			l.end(2)
			if tt.one == nil && tt.two == nil {
				check(t, "cycle 3", l.unresolved(3, ""), tt.third)
			}
		})
	}
}

func check(t *testing.T, who string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s has to wait for (-want +got):\n%s", who, diff)
	}
}

// A file that is called after a claim is of that claim's pod, from when it is known
// whose it is.
func TestAttributionKnowsClaims(t *testing.T) {
	l := NewAttribution(State{})
	l.mark(1, "nic a ")
	l.mark(2, "nic b ")
	l.see(State{Lines: []string{"file claim-7"}})
	check(t, "cycle 1 beside cycle 2", l.unresolved(1, ""), nil)
	l.mark(1, "claim-7")
	l.see(State{Lines: []string{"file claim-7"}})
	check(t, "cycle 1", l.unresolved(1, ""), []string{"cycle 1: new: file claim-7"})
	check(t, "cycle 2", l.unresolved(2, ""), nil)
}

// What was made and taken away again is nobody's, and seen anew it is of those
// who live then.
func TestAttributionForgetsWhatIsAsBefore(t *testing.T) {
	l := NewAttribution(State{})
	l.mark(1, "nic a ")
	l.see(State{Lines: []string{"file x"}})
	l.see(State{})
	if owed := l.unresolved(1, ""); len(owed) != 0 {
		t.Errorf("cycle 1 has to wait for %q", owed)
	}
	l.end(1)
	l.mark(2, "nic a ")
	l.see(State{Lines: []string{"file x"}})
	check(t, "cycle 2", l.unresolved(2, ""), []string{"cycle 2: new: file x"})
}
