// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// with changes the only device of a claim.
func with(c driver.Claim, consumed map[string]string, parameters ...string) driver.Claim {
	for name, amount := range consumed {
		c.Devices[0].Consumed[name] = resource.MustParse(amount)
	}
	for _, text := range parameters {
		c.Devices[0].Configs = append(c.Devices[0].Configs, driver.Config{Source: "claim", Raw: []byte(text)})
	}
	return c
}

// Every field of CPUConfig changes what is given, or refuses what cannot be.
func TestEveryParameterTakesEffect(t *testing.T) {
	// 12 cores of 2 threads, 4 below each L3; cores 0-1, 4-5 and 8-9 are efficiency
	// cores. CPU n and n+12 are one core. CPU 14 belongs to somebody.
	m := shape{packages: 1, nodesPer: 1, coresPer: 12, smt: 2, coresPerL3: 4, little: 2}.machine(t)
	held, err := Driver{}.Plan(with(claim("held", "cpudevnuma000", 1), nil, `{"cpuset": "14"}`), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, parameters string
		n                int
		want, why        string
	}{
		{name: "nothing said", parameters: `{}`, n: 3, want: "2-3,15"},
		{name: "fullCores", parameters: `{"fullCores": true}`, n: 4, want: "6-7,18-19"},
		{name: "fullCores of a number that cores do not make", parameters: `{"fullCores": true}`, n: 3,
			why: "NUMA node 0: wants 3 CPUs of full cores, which have [2] CPUs each: want a sum of those; 1 of its 24 allocatable CPUs are taken"},
		{name: "l3 spread", parameters: `{"l3": "spread"}`, n: 6, want: "3,6,10,15,18,22"},
		{name: "l3 pack", parameters: `{"l3": "pack"}`, n: 4, want: "6-7,18-19"},
		{name: "prefer", parameters: `{"coreTypes": {"prefer": "e-core"}}`, n: 4, want: "0-1,12-13"},
		{name: "exclude", parameters: `{"coreTypes": {"exclude": ["p-core"]}}`, n: 4, want: "0-1,12-13"},
		{name: "exclude too much", parameters: `{"coreTypes": {"exclude": ["p-core"]}}`, n: 13,
			why: "wants 13 CPUs on cores of other kinds than p-core, 12 such are free"},
		{name: "cpuset", parameters: `{"cpuset": "5,23"}`, n: 2, want: "5,23"},
		{name: "the older place of it", parameters: `{"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": "5,23"}}`, n: 2, want: "5,23"},
		{name: "cpuset that somebody has", parameters: `{"cpuset": "13-14"}`, n: 2, why: "names CPUs 13-14, of which 14 are not free here"},
		{name: "cpuset and fullCores", parameters: `{"cpuset": "5,23", "fullCores": true}`, n: 2, why: "names CPUs 5 of the core with CPUs 5,17: full cores want all of them"},
		{name: "cpuset and exclude", parameters: `{"cpuset": "5,23", "coreTypes": {"exclude": ["e-core"]}}`, n: 2, why: "names CPU 5, whose core is of kind e-core, which is excluded"},
		{name: "a value that there is not", parameters: `{"l3": "wide"}`, n: 2, why: `parameters: l3: Unsupported value: "wide"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := Driver{}.Plan(with(claim("mine", "cpudevnuma000", test.n), nil, test.parameters), m, []driver.Record{held})
			if test.why != "" {
				if err == nil || !strings.Contains(err.Error(), test.why) {
					t.Fatalf("got %v, want %q", err, test.why)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := cpusOf(t, r).String(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	class := driver.Config{Source: "class", Raw: []byte(`{"fullCores": true, "cpuset": "0-1"}`)}
	c := with(claim("mine", "cpudevnuma000", 3), nil, `{"fullCores": false, "cpuset": ""}`)
	c.Devices[0].Configs = append([]driver.Config{class}, c.Devices[0].Configs...)
	if r, err := (Driver{}).Plan(c, m, nil); err != nil || cpusOf(t, r).Size() != 3 {
		t.Errorf("the class won over the claim: %v", err)
	}
}

// Single CPUs are the scheduler's choice: they meet the parameters, or the claim is
// refused.
func TestSingleCPUs(t *testing.T) {
	m := shape{packages: 1, nodesPer: 1, coresPer: 4, smt: 2, coresPerL3: 4, little: 1}.machine(t)
	d := Driver{Offer: slicecodec.CPUOptions{Mode: slicecodec.SingleCPUs}}
	for _, test := range []struct{ devices, parameters, want, why string }{
		{devices: "001 005", want: "1,5"},
		{devices: "001 005", parameters: `{"fullCores": true}`, want: "1,5"},
		{devices: "001 002", parameters: `{"fullCores": true}`, why: "fullCores: the scheduler gave CPUs 1 of the core with CPUs 1,5: want all of them, or groups of CPUs"},
		{devices: "001", parameters: `{"l3": "spread"}`, why: "parameters: l3: the scheduler has chosen CPU 1 by itself: want it left out, or groups of CPUs"},
		{devices: "001", parameters: `{"coreTypes": {"prefer": "p-core"}}`, why: "coreTypes.prefer: the scheduler has chosen CPU 1"},
		{devices: "000", parameters: `{"coreTypes": {"exclude": ["e-core"]}}`, why: "e-core"},
		{devices: "001 005", parameters: `{"cpuset": "1-2,5"}`, want: "1,5"},
		{devices: "001", parameters: `{"cpuset": "2-5"}`, why: "parameters: cpuset: CPU 1 is not among them"},
		{devices: "003", why: "wants 1 CPUs of CPU 3, of which 0 are free (none): 1 of its 1 allocatable CPUs belong to other claims"},
		{devices: "999", why: "this node has no such device of CPUs, or all of its CPUs are offline"},
	} {
		c := claim("mine", "", 1)
		c.Devices = nil
		for _, number := range strings.Fields(test.devices) {
			a := driver.Allocation{Request: "cpus", Pool: "node", Device: "cpudev" + number}
			if test.parameters != "" {
				a.Configs = []driver.Config{{Source: "claim", Raw: []byte(test.parameters)}}
			}
			c.Devices = append(c.Devices, a)
		}
		other := claim("other", "cpudev003", 1)
		other.Devices[0].Consumed = nil
		held, err := d.Plan(other, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Plan(c, m, []driver.Record{held})
		if test.why != "" {
			if err == nil || !strings.Contains(err.Error(), test.why) {
				t.Errorf("%s %s: got %v, want %q", test.devices, test.parameters, err, test.why)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %s: %v", test.devices, test.parameters, err)
			continue
		}
		if pin, err := d.Exclusive([]driver.Record{r}); err != nil || pin.CPUs.String() != test.want {
			t.Errorf("%s %s: got %s, %v, want %s", test.devices, test.parameters, pin.CPUs, err, test.want)
		}
	}
}

// memoryMachine has four nodes of two CPUs: node 1 has no memory and lies nearest
// to nodes 0 and 2, node 3 is of memory alone.
func memoryMachine(t *testing.T) *model.Machine {
	t.Helper()
	parts := model.Machine{}
	for id := range 6 {
		node := id / 2
		parts.CPUs = append(parts.CPUs, model.CPU{ID: id, Online: true, NUMANode: &node, Core: &model.CoreID{Core: id}, Siblings: cpuset.New(id)})
	}
	parts.CPUs = append(parts.CPUs, model.CPU{ID: 6, Online: true}) // on no node
	pages := []model.HugepagePool{{PageBytes: 2 << 20, Pages: 4}}
	some := ptr.To(uint64(1 << 30))
	parts.NUMANodes = []model.NUMANode{
		{ID: 0, CPUs: cpuset.New(0, 1), MemoryBytes: some, Hugepages: pages, Distances: map[int]int{0: 10, 1: 12, 2: 14, 3: 80}},
		{ID: 1, CPUs: cpuset.New(2, 3), MemoryBytes: ptr.To(uint64(0)), Distances: map[int]int{0: 12, 1: 10, 2: 12, 3: 80}},
		{ID: 2, CPUs: cpuset.New(4, 5), Hugepages: pages, Distances: map[int]int{0: 14, 1: 12, 2: 10, 3: 80}},
		{ID: 3, MemoryBytes: some, Distances: map[int]int{0: 80, 1: 80, 2: 80, 3: 10}},
	}
	address := model.PCIAddress{Bus: 0x91}
	parts.Roots = []model.PCIRoot{{Name: "pci0000:90", Published: true}}
	parts.Functions = []model.PCIFunction{{Address: address, Root: "pci0000:90", NUMANode: ptr.To(2)}}
	parts.NICs = []model.NIC{{PCI: &address, NUMANode: ptr.To(2)}}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemoryBesideCPUs(t *testing.T) {
	m := memoryMachine(t)
	const pages = slicecodec.CapacityHugepages2Mi
	for _, test := range []struct {
		name, device string
		n            int
		pages        string
		mems, amount string
		why          string
	}{
		{name: "a node", device: "cpudevnuma000", n: 1, mems: "0"},
		{name: "a node without memory", device: "cpudevnuma001", n: 2, mems: "0,2"},
		{name: "a CPU of no node", device: "cpudev006", n: 1, mems: ""},
		{name: "huge pages", device: "cpudevnuma002", n: 1, pages: "4Mi", mems: "2", amount: "map[{2 2097152}:4194304]"},
		{name: "huge pages of two nodes", device: "cpudevmachine", n: 1, pages: "12Mi", mems: "0,2", amount: "map[{0 2097152}:6291456 {2 2097152}:6291456]"},
		{name: "more than are free", device: "cpudevnuma000", n: 1, pages: "8Mi",
			why: "wants 8Mi of dra.cpu/hugepages2Mi of NUMA node 0, of which 6Mi are free: 2Mi of its 8Mi belong to other claims"},
		{name: "half a page", device: "cpudevnuma000", n: 1, pages: "1Mi", why: "consumed capacity dra.cpu/hugepages2Mi is 1Mi: want whole pages of 2Mi"},
		{name: "where there are none", device: "cpudevnuma001", n: 1, pages: "2Mi", why: "of which 0 are free: 0 of its 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			held, err := Driver{}.Plan(with(claim("held", "cpudevnuma000", 1), map[string]string{pages: "2Mi"}), m, nil)
			if err != nil {
				t.Fatal(err)
			}
			c := claim("mine", test.device, test.n)
			if test.pages != "" {
				c = with(c, map[string]string{pages: test.pages})
			}
			r, err := Driver{}.Plan(c, m, []driver.Record{held})
			if test.why != "" {
				if err == nil || !strings.Contains(err.Error(), test.why) {
					t.Fatalf("got %v, want %q", err, test.why)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			pin, err := Driver{}.Exclusive([]driver.Record{r})
			if err != nil || pin.Mems.String() != test.mems {
				t.Errorf("memory of %q, %v, want %q", pin.Mems, err, test.mems)
			}
			taken, err := takenBy([]driver.Record{r})
			if got := fmt.Sprint(taken.pages); err != nil || test.amount != "" && got != test.amount {
				t.Errorf("got huge pages %s, %v, want %s", got, err, test.amount)
			}
		})
	}
}

// CPUs are those nearest to the claim's NIC, where the device leaves a choice.
func TestNearTheClaimsNIC(t *testing.T) {
	m := memoryMachine(t)
	bound := func(constraints ...resourceapi.DeviceConstraint) *resourceapi.ResourceClaim {
		object := &resourceapi.ResourceClaim{}
		object.Spec.Devices.Constraints = constraints
		object.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "cpus", Driver: slicecodec.DriverCPU, Pool: "node", Device: "cpudevmachine"},
			{Request: "nic/fast", Driver: slicecodec.DriverNet, Pool: "node", Device: "pci-0000-91-00-0"},
			{Request: "gpu", Driver: slicecodec.DriverGPU, Pool: "node", Device: "gpu-7"}, // not ours
		}}}
		return object
	}
	match := func(requests ...string) resourceapi.DeviceConstraint {
		return resourceapi.DeviceConstraint{Requests: requests, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(slicecodec.AttrPCIeRoot))}
	}
	beside := driver.DeviceRef{Driver: slicecodec.DriverNet, Device: "pci-0000-91-00-0"}
	for name, test := range map[string]struct {
		object *resourceapi.ResourceClaim
		pool   string
		want   string
		beside []driver.DeviceRef
		nodes  map[driver.DeviceRef]int
	}{
		"no other device":                     {&resourceapi.ResourceClaim{}, "node", "0-1", nil, nil},
		"nobody looked":                       {nil, "node", "0-1", nil, nil},
		"a NIC":                               {bound(), "node", "4-5", nil, nil},
		"bound to it":                         {bound(match("cpus", "nic")), "node", "4-5", nil, nil},
		"bound to something else":             {bound(match("cpus", "gpu")), "node", "0-1", nil, nil},
		"a constraint among others":           {bound(match("nic", "gpu")), "node", "4-5", nil, nil},
		"a NIC of the pod by another claim":   {&resourceapi.ResourceClaim{}, "node", "4-5", []driver.DeviceRef{beside}, nil},
		"one that is not there":               {nil, "node", "0-1", []driver.DeviceRef{{Driver: slicecodec.DriverNet, Device: "gone"}}, nil},
		"bound to its own device first":       {bound(match("cpus", "gpu")), "node", "0-1", []driver.DeviceRef{beside}, nil},
		"a NIC of another node's pool":        {bound(), "elsewhere", "0-1", nil, nil},
		"a GPU whose driver says where it is": {bound(match("cpus", "gpu")), "node", "2-3", nil, map[driver.DeviceRef]int{{Driver: slicecodec.DriverGPU, Device: "gpu-7"}: 1}},
	} {
		c := claim("mine", "cpudevmachine", 2)
		c.Object, c.Devices[0].Pool, c.Beside, c.Nodes = test.object, test.pool, test.beside, test.nodes
		r, err := Driver{}.Plan(c, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := cpusOf(t, r).String(); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// Records from before Mems existed keep their meaning.
func TestOldRecords(t *testing.T) {
	old := driver.Record{Claim: driver.ClaimRef{UID: "old"}, Devices: []driver.DeviceRecord{{Device: "cpudevnuma001", Plan: []byte(`{"numaNode":1,"cpus":"2-3"}`)}}}
	pin, err := Driver{}.Exclusive([]driver.Record{old})
	if err != nil || pin.CPUs.String() != "2-3" || pin.Mems.String() != "1" {
		t.Errorf("got %+v, %v", pin, err)
	}
}
