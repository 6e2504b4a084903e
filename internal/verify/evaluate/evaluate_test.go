// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/nearest"
)

// machine has two NUMA nodes of four CPUs, and a NIC on each. The sockets are
// those of the nodes; none where the kernel does not tell.
func machine(t testing.TB, sockets ...int) *model.Machine {
	t.Helper()
	var cpus []model.CPU
	for id := range 8 {
		cpu := model.CPU{ID: id, Online: true, NUMANode: ptr.To(id / 4)}
		if len(sockets) > 0 {
			cpu.Core = &model.CoreID{Package: sockets[id/4], Core: id}
		}
		cpus = append(cpus, cpu)
	}
	m, err := model.New(model.Machine{
		CPUs:      cpus,
		NUMANodes: []model.NUMANode{{ID: 0, CPUs: cpuset.New(0, 1, 2, 3)}, {ID: 1, CPUs: cpuset.New(4, 5, 6, 7)}},
		Roots:     []model.PCIRoot{{Name: "pci0000:10", NUMANode: ptr.To(0)}, {Name: "pci0000:20", NUMANode: ptr.To(1)}},
		Functions: []model.PCIFunction{
			{Address: model.PCIAddress{Bus: 0x11}, Root: "pci0000:10", Class: 0x020000, NUMANode: ptr.To(0)},
			{Address: model.PCIAddress{Bus: 0x21}, Root: "pci0000:20", Class: 0x020000, NUMANode: ptr.To(1)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// pod has both NICs, and CPUs; the NICs publish their near nodes as a list where
// lists is set.
func pod(cpus cpuset.CPUSet, lists bool, c resourceapi.DeviceConstraint) (expect.Pod, collect.Pod) {
	id := strings.Repeat("a", 64)
	claim := expect.Claim{Name: "c", UID: "u", Constraints: []resourceapi.DeviceConstraint{c}}
	var network collect.Network
	for i, bus := range []uint8{0x11, 0x21} {
		a := model.PCIAddress{Bus: bus}
		d := expect.Device{Request: []string{"near", "far"}[i], Driver: slicecodec.DriverNet, Name: a.String(), Kind: expect.NIC, PCI: &a}
		if lists {
			d.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{slicecodec.AttrNUMANode: {IntValues: []int64{0, 1}}}
		}
		claim.Devices = append(claim.Devices, d)
		network.Interfaces = append(network.Interfaces, collect.Interface{Name: "net" + a.String()[5:7], PCI: &a})
	}
	claim.Devices = append(claim.Devices, expect.Device{Request: "cpus", Driver: slicecodec.DriverCPU, Name: "group", Kind: expect.CPUs, CPUCount: cpus.Size()})
	granted := collect.Sets{CPUs: cpus, Mems: cpuset.New(0, 1)}
	return expect.Pod{Name: "p", Containers: []expect.Container{{Name: "main", ID: id, Uses: map[string][]string{"c": {""}}}}, Claims: []expect.Claim{claim}},
		collect.Pod{Network: network, Containers: []collect.Container{{Name: "main", ID: id, Granted: granted, Processes: []collect.Process{{PID: 1, Allowed: granted}}}}}
}

func TestConstraints(t *testing.T) {
	match := func(attribute string, requests ...string) resourceapi.DeviceConstraint {
		return resourceapi.DeviceConstraint{Requests: requests, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(attribute))}
	}
	distinct := func(attribute string, requests ...string) resourceapi.DeviceConstraint {
		return resourceapi.DeviceConstraint{Requests: requests, DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName(attribute))}
	}
	for _, test := range []struct {
		name  string
		cpus  cpuset.CPUSet
		lists bool
		c     resourceapi.DeviceConstraint
		want  Status
	}{
		{"CPUs beside the NIC", cpuset.New(0, 1), false, match(slicecodec.AttrLegacyNUMANode, "near", "cpus"), True},
		{"CPUs on the other node", cpuset.New(4), false, match(slicecodec.AttrLegacyNUMANode, "near", "cpus"), False},
		{"CPUs of both nodes", cpuset.New(3, 4), false, match(slicecodec.AttrNUMANode, "near", "cpus"), False},
		{"everything on one node, which it is not", cpuset.New(0), false, match(slicecodec.AttrNUMANode), False},
		{"apart on purpose", cpuset.New(4), false, distinct(slicecodec.AttrLegacyNUMANode, "near", "cpus"), True},
		{"apart on purpose, and together", cpuset.New(0), false, distinct(slicecodec.AttrLegacyNUMANode, "near", "cpus"), False},
		{"two NICs below one root", cpuset.New(0), false, match(slicecodec.AttrPCIeRoot, "near", "far"), False},
		{"CPUs near a root", cpuset.New(0), false, match(slicecodec.AttrPCIeRoot, "near", "cpus"), True},
		{"near nodes, as the drivers list them", cpuset.New(0), true, match(slicecodec.AttrNUMANode, "near", "far"), True},
		{"no fact of the hardware", cpuset.New(0), false, match("gce.dra.net/block", "near", "far"), True},
		{"a socket that the kernel does not tell", cpuset.New(0), false, match("dra.cpu/socketID", "cpus"), Unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			expected, found := pod(test.cpus, test.lists, test.c)
			if got := Pod(nearest.New(machine(t)), expected, found); got.Status != test.want {
				t.Errorf("%s, want %s: %+v", got.Status, test.want, got.Findings)
			}
		})
	}
}

// CPUs of two NUMA nodes, by a request for each in one container, are each where its device is,
// for one claim and for two. Where the container has others, neither request is believed.
func TestCPUsOfTwoRequests(t *testing.T) {
	node := slicecodec.AttrLegacyNUMANode
	match := resourceapi.DeviceConstraint{Requests: []string{"near", "cpus"}, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(node))}
	distinct := resourceapi.DeviceConstraint{Requests: []string{"near", "far-cpus"}, DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName(node))}
	for name, test := range map[string]struct {
		cpus cpuset.CPUSet
		want Status
	}{
		"one of each":                  {cpuset.New(0, 4), True},
		"both of one":                  {cpuset.New(0, 1), False},
		"more than they were given":    {cpuset.New(0, 1, 4), False},
		"both of the node of far ones": {cpuset.New(4, 5), False},
	} {
		t.Run(name, func(t *testing.T) {
			expected, found := pod(test.cpus, false, match)
			claim := &expected.Claims[0]
			claim.Constraints = append(claim.Constraints, distinct)
			cpus := &claim.Devices[len(claim.Devices)-1]
			cpus.CPUCount, cpus.NUMANode = 1, ptr.To(0)
			far := *cpus
			far.Request, far.Name, far.NUMANode = "far-cpus", "other", ptr.To(1)
			claim.Devices = append(claim.Devices, far)
			if got := Pod(nearest.New(machine(t)), expected, found); got.Status != test.want {
				t.Errorf("%s, want %s: %+v", got.Status, test.want, got.Findings)
			}
		})
	}
}

// The CPUs of a container's second claim are that claim's, whose constraints are checked by them.
func TestCPUsOfTwoClaims(t *testing.T) {
	for name, test := range map[string]struct {
		cpus cpuset.CPUSet
		want Status
	}{
		"one of each": {cpuset.New(0, 4), True}, "both of one": {cpuset.New(0, 1), False},
	} {
		t.Run(name, func(t *testing.T) {
			expected, found := pod(test.cpus, false, resourceapi.DeviceConstraint{
				Requests: []string{"near", "cpus"}, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(slicecodec.AttrLegacyNUMANode)),
			})
			first := &expected.Claims[0].Devices[2]
			first.CPUCount, first.NUMANode = 1, ptr.To(0)
			second := *first
			second.Name, second.NUMANode = "other", ptr.To(1)
			expected.Claims = append(expected.Claims, expect.Claim{Name: "d", UID: "v", Devices: []expect.Device{second}, Constraints: []resourceapi.DeviceConstraint{
				{Requests: []string{"cpus"}, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(slicecodec.AttrLegacyNUMANode))},
			}})
			expected.Containers[0].Uses["d"] = []string{""}
			got := Pod(nearest.New(machine(t)), expected, found)
			if got.Status != test.want {
				t.Errorf("%s, want %s: %+v", got.Status, test.want, got.Findings)
			}
		})
	}
}

// A socket is judged by the packages of the CPUs beside a device, whatever the
// slices say of it: several NUMA nodes can be of one.
func TestSockets(t *testing.T) {
	for _, test := range []struct {
		name    string
		sockets []int
		cpus    cpuset.CPUSet
		between []string
		want    Status
	}{
		{"NICs of two nodes of one socket", []int{0, 0}, cpuset.New(0), []string{"near", "far"}, True},
		{"NICs of two sockets", []int{0, 1}, cpuset.New(0), []string{"near", "far"}, False},
		{"a NIC and CPUs of the other node of its socket", []int{3, 3}, cpuset.New(4, 5), []string{"near", "cpus"}, True},
		{"a NIC and CPUs of the other socket", []int{0, 1}, cpuset.New(4, 5), []string{"near", "cpus"}, False},
		{"a NIC and CPUs of both sockets", []int{0, 1}, cpuset.New(3, 4), []string{"near", "cpus"}, False},
		{"NICs of sockets that nobody tells", nil, cpuset.New(0), []string{"near", "far"}, Unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			expected, found := pod(test.cpus, false, resourceapi.DeviceConstraint{
				Requests: test.between, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(slicecodec.AttrSocket)),
			})
			for i := range expected.Claims[0].Devices {
				expected.Claims[0].Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{slicecodec.AttrSocket: {IntValue: ptr.To[int64](0)}}
			}
			if got := Pod(nearest.New(machine(t, test.sockets...)), expected, found); got.Status != test.want {
				t.Errorf("%s, want %s: %+v", got.Status, test.want, got.Findings)
			}
		})
	}
}

// FuzzJudge: whatever the API server says of a pod and its claim, there is a
// verdict; and with nothing read it is never a good one.
func FuzzJudge(f *testing.F) {
	f.Add(`{"metadata":{"uid":"u","name":"p"},"spec":{"resourceClaims":[{"name":"a","resourceClaimName":"c"}],"containers":[{"name":"main","resources":{"claims":[{"name":"a"}]}}]},
		"status":{"containerStatuses":[{"name":"main","containerID":"containerd://`+strings.Repeat("a", 64)+`","state":{"running":{}}}]}}`,
		`{"metadata":{"name":"c","uid":"x"},"spec":{"devices":{"constraints":[{"matchAttribute":"dra.net/numaNode"},{}]}},
		"status":{"allocation":{"devices":{"results":[{"request":"n","driver":"dra.net","pool":"p","device":"pci-0000-11-00-0"},{"request":"c/x","driver":"dra.cpu","device":"cpudevnuma000","consumedCapacity":{"dra.cpu/cpu":"-3"}}]}}}}`)
	f.Fuzz(func(t *testing.T, podText, claimText string) {
		var p corev1.Pod
		var claim resourceapi.ResourceClaim
		if json.Unmarshal([]byte(podText), &p) != nil || json.Unmarshal([]byte(claimText), &claim) != nil {
			return
		}
		expected := expect.PodOf(&p, map[string]*resourceapi.ResourceClaim{claim.Name: &claim}, nil)
		found := collect.Pod{Network: collect.Network{Err: collect.ErrGone}}
		for _, c := range expected.Containers {
			found.Containers = append(found.Containers, collect.Container{Name: c.Name, ID: c.ID, Err: collect.ErrGone})
		}
		if got := Pod(nearest.New(machine(t)), expected, found); got.Status == True {
			t.Errorf("aligned although nothing was read: %+v", got.Findings)
		}
	})
}

// What no container names is all containers', and belongs to the CPUs of one of them.
func TestUnnamedClaimIsComparedWithCPUs(t *testing.T) {
	expected, found := pod(cpuset.New(0, 1), false, resourceapi.DeviceConstraint{})
	devices := expected.Claims[0].Devices
	expected.Claims = []expect.Claim{{Name: "c", UID: "u", Devices: devices[2:]}, {Name: "unnamed", UID: "v", Devices: devices[1:2]}}
	found.Network.Interfaces = found.Network.Interfaces[1:]
	got := Pod(nearest.New(machine(t)), expected, found)
	if near := got.Nearness(); got.Status != True || near.Status != False || near.Reason != FartherThanPossible {
		t.Errorf("as claimed %s (%s), %+v; want True, and farther than possible", got.Status, got.Message, near)
	}
	if near := got.NearnessOf("unnamed"); near.Status != False {
		t.Errorf("of the claim: %+v", near)
	}
}

// The plugin of whole GPUs gives no VFIO file: that is another GPU.
func TestPluginExcusesNoVFIO(t *testing.T) {
	m := machine(t)
	for i := range m.Functions {
		m.Functions[i].Class, m.Functions[i].Vendor = 0x030200, 0x10de
	}
	a, b := m.Functions[0].Address, m.Functions[1].Address
	id := strings.Repeat("a", 64)
	expected := expect.Pod{
		Name:       "p",
		Containers: []expect.Container{{Name: "main", ID: id, Uses: map[string][]string{"c": {""}}, GPUs: []expect.PluginGPUs{{Resource: "nvidia.com/gpu", Count: 1, Vendor: 0x10de}}}},
		Claims:     []expect.Claim{{Name: "c", UID: "u", Devices: []expect.Device{{Request: "gpu", Driver: slicecodec.DriverGPU, Name: "gpu-0", Kind: expect.GPU, PCI: &a}}}},
	}
	for kind, want := range map[collect.FileKind]Status{collect.FileGPU: True, collect.FileVFIO: False} {
		found := collect.Pod{Containers: []collect.Container{{Name: "main", ID: id, Processes: []collect.Process{{PID: 1}}, Files: []collect.File{
			{Kind: collect.FileGPU, Path: "/dev/nvidia0", PCI: a}, {Kind: kind, Path: "/dev/other", PCI: b},
		}}}}
		if got := Pod(nearest.New(m), expected, found); got.Status != want {
			t.Errorf("%s: %s (%s), want %s", kind, got.Status, got.Message, want)
		}
	}
}
