// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestScale(t *testing.T) {
	tests := []struct {
		name   string
		shape  Shape
		cpus   int
		want   string // sockets x cores x threads
		nodes  string // CPUs of each node
		memory string
	}{
		{"two sockets", Shape{Sockets: 2, ThreadsPerCore: 2, Nodes: []Node{{0, 0, 112}, {1, 1, 112}}}, 16, "2x4x2", "0-7 8-15", "[5120 5120]"},
		{"no SMT", Shape{Sockets: 2, ThreadsPerCore: 1, Nodes: []Node{{0, 0, 48}, {1, 1, 48}}}, 16, "2x8x1", "0-7 8-15", "[5120 5120]"},
		{"SNC, unequal", Shape{Sockets: 2, ThreadsPerCore: 2, Nodes: []Node{{0, 0, 72}, {1, 0, 24}, {2, 1, 72}, {3, 1, 24}}}, 16, "2x4x2", "0-5 6-7 8-13 14-15", "[2560 2560 2560 2560]"},
		{"few CPUs, many nodes", Shape{Sockets: 1, ThreadsPerCore: 2, Nodes: []Node{{0, 0, 8}, {1, 0, 8}, {2, 0, 8}}}, 2, "1x3x2", "0-1 2-3 4-5", "[3328 3328 3328]"},
		{"memory-only nodes", Shape{Sockets: 1, ThreadsPerCore: 1, Nodes: []Node{{0, 0, 8}, {1, 0, 0}, {2, 0, 0}}}, 4, "1x4x1", "0-3  ", "[9728 256 256]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l, err := test.shape.Scale(test.cpus, 10240)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%dx%dx%d", l.Sockets, l.CoresPerSocket, l.ThreadsPerCore); got != test.want {
				t.Errorf("topology %s, want %s", got, test.want)
			}
			var nodes []string
			for i := range test.shape.Nodes {
				nodes = append(nodes, spell(l.CPUs(i)))
			}
			if got := strings.Join(nodes, " "); got != test.nodes {
				t.Errorf("nodes have %q, want %q", got, test.nodes)
			}
			if got := fmt.Sprint(l.MemoryMiB); got != test.memory {
				t.Errorf("memory %s, want %s", got, test.memory)
			}
		})
	}
}

func TestScaleRefuses(t *testing.T) {
	for _, s := range []Shape{
		{Name: "m", Sockets: 2, Nodes: []Node{{0, 0, 4}}},
		{Name: "m", Sockets: 1, Nodes: []Node{{0, 3, 4}}},
	} {
		if _, err := s.Scale(4, 1024); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
}

// TestScaleKeepsEveryNode: whatever the machine, QEMU's product comes out and
// no node with CPUs loses all of them.
func TestScaleKeepsEveryNode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := Shape{Name: "m", Sockets: 1 + r.IntN(4), ThreadsPerCore: 1 + r.IntN(2)}
		for socket := range s.Sockets {
			for range 1 + r.IntN(4) {
				s.Nodes = append(s.Nodes, Node{ID: len(s.Nodes), Socket: socket, CPUs: 1 + r.IntN(200)})
			}
		}
		l, err := s.Scale(r.IntN(64), 20480)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Node) != l.Sockets*l.CoresPerSocket*l.ThreadsPerCore {
			t.Fatalf("%+v: %d CPUs in %+v", s, len(l.Node), l)
		}
		for i, n := range s.Nodes {
			cpus := l.CPUs(i)
			if len(cpus) == 0 || len(cpus)%l.ThreadsPerCore != 0 {
				t.Fatalf("%+v: node %d has CPUs %v", s, n.ID, cpus)
			}
			for _, cpu := range cpus {
				if cpu/(l.CoresPerSocket*l.ThreadsPerCore) != n.Socket {
					t.Fatalf("%+v: CPU %d of node %d is on another socket", s, cpu, n.ID)
				}
			}
		}
	}
}

func TestParseRoot(t *testing.T) {
	for name, ok := range map[string]bool{
		"pci0000:8c": true, "pci0101:00": true, "pci0000:8C": false, "pci0000:8c ": false, "pci0000:100": false, "": false, "8c": false,
	} {
		domain, bus, err := ParseRoot(name)
		if (err == nil) != ok || ok && (Root{Domain: domain, Bus: bus}).Name() != name {
			t.Errorf("%q: %x %x %v", name, domain, bus, err)
		}
	}
}
