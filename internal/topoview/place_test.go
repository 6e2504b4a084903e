// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/topoview"
)

func address(t *testing.T, text string) model.PCIAddress {
	t.Helper()
	a, err := model.ParsePCIAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A root stands on the node it is local to, else on the one its devices agree
// on; a device without a node contradicts nobody.
func TestRootPlacement(t *testing.T) {
	for name, tc := range map[string]struct {
		root, gpu, nic *int
		want           string
	}{
		"the root says":                 {root: ptr.To(1), gpu: ptr.To(1), nic: ptr.To(1), want: "1"},
		"both devices say":              {gpu: ptr.To(1), nic: ptr.To(1), want: "1"},
		"only the NIC says":             {nic: ptr.To(1), want: "1"},
		"nobody says":                   {want: "none"},
		"they contradict":               {gpu: ptr.To(0), nic: ptr.To(1), want: "none, misplaced gpu-0, misplaced pci-0000-11-00-0"},
		"a device contradicts its root": {root: ptr.To(0), gpu: ptr.To(0), nic: ptr.To(1), want: "0, misplaced pci-0000-11-00-0"},
	} {
		t.Run(name, func(t *testing.T) {
			gpu, nic := address(t, "0000:10:00.0"), address(t, "0000:11:00.0")
			m, err := model.New(model.Machine{
				NUMANodes: []model.NUMANode{{ID: 0, CPUs: cpuset.New(0)}, {ID: 1, CPUs: cpuset.New(1)}},
				Roots:     []model.PCIRoot{{Name: "pci0000:0f", Published: true, NUMANode: tc.root}},
				Functions: []model.PCIFunction{
					{Address: gpu, Root: "pci0000:0f", Class: 0x030200, NUMANode: tc.gpu},
					{Address: nic, Root: "pci0000:0f", Class: 0x020000, NUMANode: tc.nic},
				},
				GPUs: []model.GPU{{PCI: gpu, NUMANode: tc.gpu}},
				NICs: []model.NIC{{PCI: &nic, NUMANode: tc.nic}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := whereRootIs(topoview.Build(m, topoview.Options{})); got != tc.want {
				t.Errorf("root is on %q, want %q", got, tc.want)
			}
		})
	}
}

func whereRootIs(t *topoview.Topology) string {
	var where []string
	for _, s := range t.Sockets {
		for _, n := range s.Nodes {
			if len(n.Roots) > 0 {
				where = append(where, strconv.Itoa(*n.ID))
			}
		}
	}
	if t.Unplaced != nil && len(t.Unplaced.Roots) > 0 {
		where = append(where, "none")
	}
	for _, d := range t.AllDevices() {
		if d.Misplaced {
			where = append(where, "misplaced "+d.Name)
		}
	}
	return strings.Join(where, ", ")
}

// A switch is a place where paths part. A port with one device, or with the
// functions of one, is none.
func TestBridges(t *testing.T) {
	bridge, nic := uint32(0x060400), uint32(0x020000)
	type function struct {
		address, parent string
		class           uint32
	}
	for name, tc := range map[string]struct {
		functions []function
		want      string
	}{
		"on the root": {[]function{{"0000:00:01.0", "", nic}}, "00:01.0"},
		"below a root port": {[]function{{"0000:00:01.0", "", bridge}, {"0000:01:00.0", "0000:00:01.0", nic}, {"0000:01:00.1", "0000:00:01.0", nic}},
			"01:00.0 01:00.1"},
		"below a switch": {[]function{
			{"0000:00:01.0", "", bridge}, {"0000:01:00.0", "0000:00:01.0", bridge},
			{"0000:02:00.0", "0000:01:00.0", bridge}, {"0000:02:01.0", "0000:01:00.0", bridge}, {"0000:02:02.0", "0000:01:00.0", bridge},
			{"0000:03:00.0", "0000:02:00.0", nic}, {"0000:04:00.0", "0000:02:01.0", nic},
		}, "switch 01:00.0 (03:00.0 04:00.0)"},
		"below a switch below a switch": {[]function{
			{"0000:01:00.0", "", bridge}, {"0000:02:00.0", "0000:01:00.0", bridge}, {"0000:02:01.0", "0000:01:00.0", bridge},
			{"0000:03:00.0", "0000:02:00.0", nic}, {"0000:04:00.0", "0000:02:01.0", bridge},
			{"0000:05:00.0", "0000:04:00.0", bridge}, {"0000:05:01.0", "0000:04:00.0", bridge},
			{"0000:06:00.0", "0000:05:00.0", nic}, {"0000:07:00.0", "0000:05:01.0", nic},
		}, "switch 01:00.0 (03:00.0 switch 04:00.0 (06:00.0 07:00.0))"},
		"below a conventional bridge": {[]function{
			{"0000:00:01.0", "", bridge}, {"0000:01:04.0", "0000:00:01.0", nic}, {"0000:01:05.0", "0000:00:01.0", nic},
		}, "bridge 00:01.0 (01:04.0 01:05.0)"},
		"in a loop": {[]function{
			{"0000:01:00.0", "0000:02:00.0", bridge}, {"0000:02:00.0", "0000:01:00.0", nic},
		}, "02:00.0"},
		"below a missing parent": {[]function{{"0000:01:00.0", "0000:00:1f.0", nic}}, "01:00.0"},
	} {
		t.Run(name, func(t *testing.T) {
			parts := model.Machine{Roots: []model.PCIRoot{{Name: "pci0000:00"}}}
			for _, f := range tc.functions {
				one := model.PCIFunction{Address: address(t, f.address), Root: "pci0000:00", Class: f.class}
				if f.parent != "" {
					one.Parent = ptr.To(address(t, f.parent))
				}
				parts.Functions = append(parts.Functions, one)
			}
			m, err := model.New(parts)
			if err != nil {
				t.Fatal(err)
			}
			topology := topoview.Build(m, topoview.Options{})
			if topology.Unplaced == nil || len(topology.Unplaced.Roots) != 1 {
				t.Fatal("the root is not among what is on no node")
			}
			if got := shape(topology.Unplaced.Roots[0].Branch); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func shape(br topoview.Branch) string {
	var parts []string
	for _, d := range br.Devices {
		parts = append(parts, strings.TrimPrefix(d.Address, "0000:"))
	}
	for _, p := range br.Bridges {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", p.Kind, strings.TrimPrefix(p.Address, "0000:"), shape(p.Branch)))
	}
	return strings.Join(parts, " ")
}

// Whatever names are in the machine: one line a device, nothing unprintable.
func TestTextOfHostileNames(t *testing.T) {
	names := []string{"ok", "\x1b[2J", "a\nb", "\xff", "\u202e", "\ufffe", strings.Repeat("x", 5000), ""}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		parts := model.Machine{Name: names[r.IntN(len(names))]}
		n := r.IntN(6)
		for i := range n {
			name := names[r.IntN(len(names))]
			parts.NICs = append(parts.NICs, model.NIC{
				PCI:       &model.PCIAddress{Bus: uint8(i)},
				Interface: &model.Interface{Name: name}, RDMA: &model.RDMADevice{Name: name}, Withheld: &name,
			})
		}
		m, err := model.New(parts)
		if err != nil {
			t.Fatal(err)
		}
		out := text(t, topoview.Build(m, topoview.Options{Source: names[r.IntN(len(names))]}), topoview.TextOptions{})
		for i := range n {
			if got := strings.Count(out, fmt.Sprintf("pci-0000-%02x-00-0", i)); got != 1 {
				t.Errorf("NIC %d is there %d times in\n%s", i, got, out)
			}
		}
		if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("unprintable character in %q", out[i:])
		}
	}
}

func TestClaimKeysAreUnique(t *testing.T) {
	holders := map[topoview.DeviceID][]topoview.Holder{}
	for i := range 100 {
		id := topoview.DeviceID{Driver: "dra.net", Name: "x"}
		holders[id] = append(holders[id], topoview.Holder{Namespace: "n", Claim: strconv.Itoa(i)})
	}
	m, err := model.New(model.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, c := range topoview.Build(m, topoview.Options{Holders: holders}).Claims {
		keys = append(keys, c.Key)
	}
	slices.Sort(keys)
	if len(keys) != 100 || len(slices.Compact(keys)) != 100 {
		t.Errorf("100 claims have keys %v", keys)
	}
}
