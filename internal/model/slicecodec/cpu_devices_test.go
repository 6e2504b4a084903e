// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec_test

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// scanned is a machine of a facts file as a scan of it finds it.
func scanned(t *testing.T, name string) *model.Machine {
	t.Helper()
	facts, err := machine.OpenFacts(name)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := machine.Render(facts)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := inventory.Scan(t.Context(), inventory.Sources{Sys: tree}, inventory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// node is one NUMA node of a machine made up for a test: as many cores as L3
// has entries, each of threads CPUs.
type node struct {
	socket    int
	l3        []int
	threads   int
	offline   []int
	kinds     []model.CoreType
	memory    uint64
	hugepages []model.HugepagePool
}

// madeUp numbers CPUs node by node; core ids begin anew in every package.
func madeUp(t *testing.T, nodes ...node) *model.Machine {
	t.Helper()
	var parts model.Machine
	id, cores := 0, map[int]int{}
	for at, n := range nodes {
		var mine []int
		for c, l3 := range n.l3 {
			core := model.CoreID{Package: n.socket, Core: cores[n.socket]}
			cores[n.socket]++
			siblings := cpuset.New()
			for thread := range n.threads {
				if !slices.Contains(n.offline, id+thread) {
					siblings = siblings.Union(cpuset.New(id + thread))
				}
			}
			for range n.threads {
				cpu := model.CPU{ID: id}
				if !slices.Contains(n.offline, id) {
					cpu = model.CPU{ID: id, Online: true, Core: &core, NUMANode: &at, Siblings: siblings}
					if l3 >= 0 {
						cpu.L3 = &l3
					}
					if n.kinds != nil {
						cpu.Type = n.kinds[c]
					}
					mine = append(mine, id)
				}
				parts.CPUs = append(parts.CPUs, cpu)
				id++
			}
		}
		parts.NUMANodes = append(parts.NUMANodes, model.NUMANode{ID: at, CPUs: cpuset.New(mine...), MemoryBytes: ptr.To(n.memory), Hugepages: n.hugepages})
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const p, e = model.PerformanceCore, model.EfficiencyCore

func oddMachines(t *testing.T) map[string]*model.Machine {
	two := []model.HugepagePool{{PageBytes: 2 << 20, Pages: 512}, {PageBytes: 1 << 30, Pages: 4}}
	return map[string]*model.Machine{
		"smt-off":                        madeUp(t, node{l3: []int{0, 0}, threads: 1, memory: 1}, node{socket: 1, l3: []int{1, 1}, threads: 1, memory: 1}),
		"offline":                        madeUp(t, node{l3: []int{0, 0}, threads: 2, offline: []int{1}, memory: 1}, node{socket: 1, l3: []int{1}, threads: 2, offline: []int{4, 5}, memory: 1}),
		"smt-4":                          madeUp(t, node{l3: []int{0, 1}, threads: 4, memory: 1}),
		"hybrid":                         madeUp(t, node{l3: []int{0, 0}, threads: 2, kinds: []model.CoreType{p, p}, memory: 1}, node{l3: []int{0, 0}, threads: 1, kinds: []model.CoreType{e, e}, memory: 1}),
		"no-l3":                          madeUp(t, node{l3: []int{-1, -1}, threads: 1, memory: 1}),
		"one-cpu":                        madeUp(t, node{l3: []int{0}, threads: 1, memory: 1}),
		"hugepages":                      madeUp(t, node{l3: []int{0, 0}, threads: 2, memory: 1, hugepages: two[:1]}, node{l3: []int{1}, threads: 2, memory: 1, hugepages: two}),
		"memory-less and CPU-less nodes": madeUp(t, node{l3: []int{0, 0}, threads: 2}, node{threads: 1, memory: 1, hugepages: two}),
	}
}

// Every machine, offered in every way. A diff of these files is a change of what
// claims and constraints can be written against.
func TestCPUSlices(t *testing.T) {
	all := oddMachines(t)
	more, err := filepath.Glob("../../machine/testdata/facts/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(machine.Names(), more) {
		all[strings.TrimSuffix(path.Base(name), ".yaml")] = scanned(t, name)
	}
	for name, m := range all {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for _, o := range []slicecodec.CPUOptions{
				{}, {Mode: slicecodec.PerSocket, PCIeRoots: true}, {Mode: slicecodec.WholeMachine}, {Mode: slicecodec.SingleCPUs},
				{Reserved: cpuset.New(0), ReservedPerNUMA: 1},
			} {
				devices, omitted := slicecodec.Explain(m, slicecodec.DriverCPU, o)
				fmt.Fprintf(&b, "# mode %q, reserved %q and %d per NUMA node: %d devices\n", o.Mode, o.Reserved, o.ReservedPerNUMA, len(devices))
				writeDevices(&b, devices)
				for _, line := range omitted {
					fmt.Fprintln(&b, "left out:", line)
				}
				for _, d := range devices {
					checkCapacities(t, d)
				}
			}
			golden.Assert(t, filepath.Join("testdata", "cpus", strings.ReplaceAll(name, " ", "-")+".txt"), b.String())
		})
	}
}

// mostShown is how many devices of a kind say all there is to say.
const mostShown = 6

func writeDevices(b *strings.Builder, devices []resourceapi.Device) {
	for i, d := range devices {
		if i == mostShown {
			fmt.Fprintf(b, "… and %d more, the last %s\n", len(devices)-i, devices[len(devices)-1].Name)
			return
		}
		fmt.Fprint(b, d.Name)
		if ptr.Deref(d.AllowMultipleAllocations, false) {
			fmt.Fprint(b, ", shared")
		}
		fmt.Fprintln(b)
		for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
			a := d.Attributes[name]
			var value any
			switch {
			case a.IntValue != nil:
				value = *a.IntValue
			case a.BoolValue != nil:
				value = *a.BoolValue
			case a.StringValue != nil:
				value = *a.StringValue
			default:
				value = a.StringValues
			}
			fmt.Fprintf(b, "  %s %v\n", name, value)
		}
		for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
			c := d.Capacity[name]
			fmt.Fprintf(b, "  %s %s, default %s", name, &c.Value, c.RequestPolicy.Default)
			if r := c.RequestPolicy.ValidRange; r != nil {
				fmt.Fprintf(b, ", %s to %s by %s", r.Min, r.Max, r.Step)
			}
			for _, v := range c.RequestPolicy.ValidValues {
				fmt.Fprintf(b, ", or %s", &v)
			}
			fmt.Fprintln(b)
		}
	}
}

// checkCapacities is what the API server demands of request policies
// (pkg/apis/resource/validation, validateRequestPolicy).
func checkCapacities(t *testing.T, d resourceapi.Device) {
	t.Helper()
	for name, c := range d.Capacity {
		policy := c.RequestPolicy
		if r := policy.ValidRange; r != nil {
			least := r.Min.DeepCopy()
			least.Add(*r.Step)
			outside := func(q *resource.Quantity) bool { return q.Cmp(*r.Min) < 0 || q.Cmp(c.Value) > 0 }
			if outside(policy.Default) || outside(r.Max) || least.Cmp(c.Value) > 0 || r.Step.Sign() <= 0 {
				t.Errorf("device %s, capacity %s: %+v of %s is refused", d.Name, name, policy, &c.Value)
			}
			for _, q := range []*resource.Quantity{policy.Default, r.Max} {
				if (q.Value()-r.Min.Value())%r.Step.Value() != 0 {
					t.Errorf("device %s, capacity %s: %s is no number of steps", d.Name, name, q)
				}
			}
		}
		if (policy.ValidRange == nil) == (len(policy.ValidValues) == 0) {
			t.Errorf("device %s, capacity %s: want a range or values", d.Name, name)
		}
	}
}

// A name keeps its meaning whatever the agent's options are, and whatever happens to
// other CPUs: an allocated claim must keep its meaning.
func TestCPUNamesStay(t *testing.T) {
	whole := madeUp(t, node{l3: []int{0, 0}, threads: 2, memory: 1}, node{socket: 1, l3: []int{1, 1}, threads: 2, memory: 1})
	less := madeUp(t, node{l3: []int{0, 0}, threads: 2, offline: []int{0}, memory: 1}, node{socket: 1, l3: []int{1, 1}, threads: 2, memory: 1})
	modes := []slicecodec.CPUMode{slicecodec.PerNUMANode, slicecodec.PerSocket, slicecodec.WholeMachine, slicecodec.SingleCPUs}
	for _, mode := range modes {
		for _, d := range slicecodec.CPUDevices(whole, slicecodec.CPUOptions{Mode: mode}) {
			for _, o := range []slicecodec.CPUOptions{{}, {Mode: slicecodec.SingleCPUs}, {Reserved: cpuset.New(1, 4)}, {Mode: slicecodec.PerSocket, ReservedPerNUMA: 1}} {
				for _, m := range []*model.Machine{whole, less} {
					again := slicecodec.FindCPUDevice(m, o, d.Name)
					switch {
					case again == nil && d.CPU == nil:
						t.Errorf("%s is gone", d.Name)
					case again != nil && (!again.CPUs.IsSubsetOf(d.CPUs) || again.String() != d.String()):
						t.Errorf("%s was %s with CPUs %s, and is %s with %s", d.Name, &d, d.CPUs, again, again.CPUs)
					}
				}
			}
		}
	}
	if d := slicecodec.FindCPUDevice(whole, slicecodec.CPUOptions{}, "cpudevnuma0000"); d != nil {
		t.Errorf("a name that nobody gives is found: %s", d)
	}
}

// Reserved CPUs are whole cores from the first on, wherever they are numbered.
func TestReservedPerNUMA(t *testing.T) {
	m := madeUp(t, node{l3: []int{0, 0}, threads: 2, memory: 1}, node{socket: 1, l3: []int{1, 1}, threads: 2, offline: []int{4}, memory: 1})
	for want, o := range map[string]slicecodec.CPUOptions{
		"":            {},
		"0,5":         {ReservedPerNUMA: 1},
		"0-1,5-6":     {ReservedPerNUMA: 2},
		"0,3,5-6":     {ReservedPerNUMA: 2, Reserved: cpuset.New(3)},
		"0-3,5-7":     {ReservedPerNUMA: 9},
		"2-3,6-7":     {ReservedPerNUMA: 2, Reserved: cpuset.New(2, 3, 6, 7)},
		"1,5-7,20-21": {ReservedPerNUMA: 1, Reserved: cpuset.New(1, 5, 6, 7, 20, 21)},
	} {
		if got := slicecodec.ReservedCPUs(m, o); got.String() != want {
			t.Errorf("%+v: reserved are %s, want %s", o, got, want)
		}
	}
}
