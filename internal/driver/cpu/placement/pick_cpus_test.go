// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver/cpu/placement"
	"plumbline.dev/plumbline/internal/model"
)

func set(t *testing.T, list string) cpuset.CPUSet {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPlace(t *testing.T) {
	var (
		// Two sockets of 4 cores, 2 threads, one L3 each: CPU n and n+8 are one core.
		small = shape{sockets: 2, nodes: 1, cores: 4, threads: 2, perL3: 4}
		// One socket of 8 cores in L3s of 2.
		split = shape{sockets: 1, nodes: 1, cores: 8, threads: 2, perL3: 2}
		// Of 6 cores 0 and 1 are efficiency cores.
		hybrid = shape{sockets: 1, nodes: 1, cores: 6, threads: 2, perL3: 6, efficiencyPerSix: 2}
		// Core 2 has lost a thread.
		broken = shape{sockets: 1, nodes: 1, cores: 3, threads: 2, perL3: 3, offline: []int{5}}
	)
	tests := []struct {
		name  string
		shape shape
		taken string // by others
		n     int
		near  string
		p     placement.Policy
		want  string // empty: refused
		why   string // what the refusal says
	}{
		{name: "whole cores", shape: small, n: 4, want: "0-1,8-9"},
		{name: "other package keeps its cores", shape: small, taken: "0", n: 4, want: "1-2,9-10"},
		{name: "odd number takes a broken core", shape: small, taken: "0", n: 3, want: "1,8-9"},
		{name: "odd number breaks a core", shape: small, n: 3, want: "0-1,8"},
		{name: "rests only", shape: small, taken: "0-3", n: 4, want: "8-11"},
		{name: "a fragment before a whole core", shape: small, taken: "0", n: 1, want: "8"},
		{name: "one L3 rather than two halves", shape: split, taken: "0,8", n: 4, want: "2-3,10-11"},
		{name: "a fragment and a core of one L3", shape: split, taken: "0", n: 3, want: "1,8-9"},
		{name: "an L3 of fragments is no better", shape: split, taken: "0-1", n: 2, want: "2,10"},
		{name: "one L3 of fragments before two halves", shape: split, taken: "0-7", n: 2, want: "8-9"},
		{name: "everything", shape: small, n: 8, want: "0-3,8-11"},
		{name: "whole L3", shape: split, taken: "0", n: 4, want: "2-3,10-11"},
		{name: "best fit keeps whole L3s", shape: split, taken: "0,8", n: 2, want: "1,9"},
		{name: "two L3s", shape: split, n: 8, want: "0-3,8-11"},
		{name: "spread", shape: split, n: 8, p: placement.Policy{Spread: true}, want: "0,2,4,6,8,10,12,14"},
		{name: "near the device", shape: split, n: 4, near: "4-5,12-13", want: "4-5,12-13"},
		{name: "near, then the rest", shape: split, n: 6, near: "4-5,12-13", want: "0,4-5,8,12-13"},
		{name: "performance cores first", shape: hybrid, n: 4, want: "2-3,8-9"},
		{name: "efficiency cores by wish", shape: hybrid, n: 2, p: placement.Policy{Prefer: model.EfficiencyCore}, want: "0-1"},
		{name: "kinds do not mix where one has enough", shape: hybrid, n: 4, p: placement.Policy{Prefer: model.EfficiencyCore}, want: "2-3,8-9"},
		{name: "kinds mix at the end", shape: hybrid, n: 10, want: "0-5,8-11"},
		{name: "excluded kind", shape: hybrid, n: 9, p: placement.Policy{Exclude: []model.CoreType{model.EfficiencyCore}},
			why: "wants 9 CPUs on cores of other kinds than e-core, 8 such are free"},
		{name: "full cores", shape: small, taken: "0", n: 4, p: placement.Policy{FullCores: true}, want: "1-2,9-10"},
		{name: "full cores of a broken machine", shape: broken, n: 3, p: placement.Policy{FullCores: true}, want: "0,2-3"},
		{name: "full cores want a whole number", shape: small, n: 3, p: placement.Policy{FullCores: true},
			why: "wants 3 CPUs of full cores, which have [2] CPUs each: want a sum of those"},
		{name: "full cores are shared", shape: small, taken: "0-3", n: 2, p: placement.Policy{FullCores: true},
			why: "wants 2 CPUs of full cores, 0 are on cores that nobody shares"},
		{name: "named", shape: small, n: 2, p: placement.Policy{CPUs: cpuset.New(3, 11)}, want: "3,11"},
		{name: "named of another node", shape: small, n: 2, p: placement.Policy{CPUs: cpuset.New(3, 12)},
			why: "names CPUs 3,12, of which 12 are not free here; free are 0-3,8-11"},
		{name: "named is another number", shape: small, n: 1, p: placement.Policy{CPUs: cpuset.New(3, 11)},
			why: "names CPUs 3,11, which are 2, and wants 1: want as many"},
		{name: "named breaks a full core", shape: small, n: 1, p: placement.Policy{CPUs: cpuset.New(3), FullCores: true},
			why: "names CPUs 3 of the core with CPUs 3,11: full cores want all of them"},
		{name: "named is excluded", shape: hybrid, n: 1, p: placement.Policy{CPUs: cpuset.New(0), Exclude: []model.CoreType{model.EfficiencyCore}},
			why: "names CPU 0, whose core is of kind e-core, which is excluded"},
		{name: "too few", shape: small, taken: "0-3", n: 5, why: "wants 5 CPUs, 4 are free (8-11)"},
		{name: "none", shape: small, taken: "0-3,8-11", n: 1, why: "wants 1 CPUs, 0 are free (none)"},
		{name: "no number", shape: small, n: 0, why: "wants 0 CPUs: want at least 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := test.shape.build()
			got, err := placement.Place(m.topology, placement.Request{
				N: test.n, Free: m.groups[0].Difference(set(t, test.taken)), Near: set(t, test.near), Policy: test.p,
			})
			if test.want == "" {
				if err == nil || !strings.Contains(err.Error(), test.why) {
					t.Fatalf("got %s, %v; want the reason %q", got, err, test.why)
				}
				return
			}
			if err != nil || got.String() != test.want {
				t.Errorf("got %s, %v; want %s", got, err, test.want)
			}
		})
	}
}

// TestMissionShape is the machine on which the driver we replace hands out CPUs
// of the other socket (2 sockets of 56 cores of 2 threads, core ids per
// package): with one CPU taken and two reserved, all claims of 4 stay on their
// node, and every core they get is whole as long as there are whole ones.
func TestMissionShape(t *testing.T) {
	m := shape{sockets: 2, nodes: 1, cores: 56, threads: 2, perL3: 56}.build()
	for node, group := range m.groups {
		free := group.Difference(cpuset.New(0, 1, group.List()[2]))
		for free.Size() >= 4 {
			got, err := placement.Place(m.topology, placement.Request{N: 4, Free: free})
			if err != nil || !got.IsSubsetOf(group) || got.Size() != 4 {
				t.Fatalf("node %d: got %s, %v", node, got, err)
			}
			free = free.Difference(got)
		}
	}
}
