// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// beside is the tutorial's pod with the drivers of others.
func beside(t *testing.T) (*verifytest.Node, *verifytest.Pod, verifytest.AllocatedPod) {
	t.Helper()
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	p := n.NewPod("train")
	allocated := n.Give(p, verifytest.Originals(), []int{0}, []int{0}, cpuset.New(4, 5, 6, 7))
	n.UnbindMemory(p)
	// NVIDIA's GPUs have the standard attribute alone.
	for i := range allocated.Claim.Spec.Devices.Constraints {
		if c := &allocated.Claim.Spec.Devices.Constraints[i]; string(*c.MatchAttribute) == slicecodec.AttrLegacyNUMANode {
			c.Requests = []string{"nic-0", "cpu-req"}
		}
	}
	n.Write(t, p)
	return n, p, allocated
}

// Claims that others serve are verified by the same kernel.
func TestOriginals(t *testing.T) {
	n, p, allocated := beside(t)
	r := n.Reader(t)
	got := look(t, n, r, p, allocated.Expect())
	if got.Status != evaluate.True || !strings.Contains(explain(got), "the driver of these CPUs does not bind memory") {
		t.Fatal(explain(got))
	}
	p.NICs = map[string]int{"net0": 5}
	n.Write(t, p)
	if got := verify.Check(t.Context(), n.Machine, r, []expect.Pod{allocated.Expect()}, false)[0]; got.Reason != evaluate.DeviceMissing {
		t.Error(explain(got))
	}
}

// dra-driver-cpu counts single CPUs in an order of its own: what cpudev003 is,
// its attribute says.
func TestSingleCPUs(t *testing.T) {
	n, _, allocated := beside(t)
	p := n.NewPod("single")
	second := n.Give(p, verifytest.Originals(), nil, nil, cpuset.New(5))
	n.Write(t, p)
	result := &second.Claim.Status.Allocation.Devices.Results[0]
	result.Device, result.ConsumedCapacity = "cpudev003", nil
	second.Slices = append(allocated.Slices, verifytest.SliceOf(n, slicecodec.DriverCPU, []resourceapi.Device{{
		Name: "cpudev003", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"dra.cpu/cpuID": {IntValue: ptr.To(int64(5))}, "dra.cpu/numaNodeID": {IntValue: ptr.To(int64(0))},
		},
	}}))
	r := n.Reader(t)
	if got := verify.Check(t.Context(), n.Machine, r, []expect.Pod{second.Expect()}, false)[0]; got.Status != evaluate.True {
		t.Error(explain(got))
	}
	p.Pin(cpuset.New(3), cpuset.New(0))
	n.Write(t, p)
	if got := verify.Check(t.Context(), n.Machine, r, []expect.Pod{second.Expect()}, false)[0]; got.Reason != evaluate.CPUsWrong {
		t.Error(explain(got))
	}
}

// NVIDIA's driver before 0.5 published less: what nobody says is not known.
func TestGPUWithoutAddress(t *testing.T) {
	n, _, allocated := beside(t)
	for i := range allocated.Slices {
		for k := range allocated.Slices[i].Spec.Devices {
			if allocated.Slices[i].Spec.Driver == slicecodec.DriverGPU {
				delete(allocated.Slices[i].Spec.Devices[k].Attributes, slicecodec.AttrPCIBusID)
			}
		}
	}
	if got := verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{allocated.Expect()}, false)[0]; got.Status != evaluate.Unknown {
		t.Error(explain(got))
	}
}

// DRANET's virtual interfaces are known by the name in the claim's status alone.
func TestVirtualInterface(t *testing.T) {
	n, _, allocated := beside(t)
	results := &allocated.Claim.Status.Allocation.Devices.Results
	for i := range *results {
		if (*results)[i].Driver == slicecodec.DriverNet {
			(*results)[i].Device = "net-mv2ge6i"
		}
	}
	allocated.Claim.Status.Devices[0].Device = "net-mv2ge6i"
	allocated.Claim.Status.Devices[0].NetworkData.InterfaceName = "eth0"
	allocated.Claim.Spec.Devices.Constraints = nil
	p := n.NewPod("train")
	p.PID -= 10
	n.Give(p, verifytest.Originals(), []int{0}, nil, cpuset.New(4, 5, 6, 7))
	n.Write(t, p)
	if got := verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{allocated.Expect()}, false)[0]; got.Status != evaluate.True {
		t.Error(explain(got))
	}
}

// Slices of two generations contradict each other: the younger one counts.
func TestGenerations(t *testing.T) {
	n, _, allocated := beside(t)
	old := *allocated.Slices[0].DeepCopy()
	old.Spec.Pool.Generation = 0
	old.Name = "old"
	for i := range old.Spec.Devices {
		old.Spec.Devices[i].Attributes["dra.net/pciAddress"] = resourceapi.DeviceAttribute{StringValue: ptr.To("0000:ff:00.0")}
	}
	for _, slices := range [][]resourceapi.ResourceSlice{append(allocated.Slices, old), append([]resourceapi.ResourceSlice{old}, allocated.Slices...)} {
		mixed := allocated
		mixed.Slices = slices
		if got := verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{mixed.Expect()}, false)[0]; got.Status != evaluate.True {
			t.Error(explain(got))
		}
	}
}

// A request with no capacity takes the whole device.
func TestWholeGroup(t *testing.T) {
	n, p, allocated := beside(t)
	for i := range allocated.Claim.Status.Allocation.Devices.Results {
		allocated.Claim.Status.Allocation.Devices.Results[i].ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{}
	}
	got := verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{allocated.Expect()}, false)[0]
	if got.Reason != evaluate.CPUsWrong {
		t.Errorf("4 CPUs of a whole group: %s", explain(got))
	}
	p.Pin(n.Machine.NUMANodes[0].CPUs, p.Mems)
	for uid := range p.EnvCPUs {
		p.EnvCPUs[uid] = p.CPUs
	}
	n.Write(t, p)
	if got := verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{allocated.Expect()}, false)[0]; got.Status != evaluate.True {
		t.Error(explain(got))
	}
}
