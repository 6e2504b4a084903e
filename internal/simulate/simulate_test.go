// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/claimgen"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/simulate"
)

func shippedClasses(t testing.TB) map[string]*resourceapi.DeviceClass {
	t.Helper()
	classes := map[string]*resourceapi.DeviceClass{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(deploy.DeviceClasses()), 4096)
	for {
		var class resourceapi.DeviceClass
		if err := decoder.Decode(&class); err != nil {
			break
		}
		if class.Name != "" {
			classes[class.Name] = &class
		}
	}
	if len(classes) == 0 {
		t.Fatal("no classes are shipped")
	}
	return classes
}

// On every shipped machine as many generated claims fit as the scheduler's
// allocator by itself says.
func TestAsOftenAsTheAllocatorSays(t *testing.T) {
	for _, name := range machine.Names() {
		group, err := simulate.FromMachine(context.Background(), name, nil, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []claimgen.Options{
			{GPUs: 1, NICs: 1, CPUs: 4, Align: claimgen.PCIe},
			{GPUs: 1, NICs: 1, Align: claimgen.PCIe, Fallback: []string{claimgen.NUMA}},
			{GPUs: 2, NICs: 2, Align: claimgen.NUMA, Fallback: []string{claimgen.Any}},
			{GPUs: 4, NICs: 4, CPUs: 8, Align: claimgen.NUMA},
			{NICs: 1, CPUs: 30, Align: claimgen.NUMA, WithoutRDMA: true},
		} {
			t.Run(fmt.Sprintf("%s %+v", name, o), func(t *testing.T) {
				spec, err := claimgen.Spec(o)
				if err != nil {
					t.Fatal(err)
				}
				claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Spec: *spec}
				options := simulate.Options{Classes: shippedClasses(t), Limit: 50}
				n, err := simulate.Fill(context.Background(), group, explain.OfClaim(claim), options)
				if err != nil {
					t.Fatal(err)
				}
				var slices []*resourceapi.ResourceSlice
				for i := range group.Slices {
					slices = append(slices, &group.Slices[i])
				}
				pods, _, err := allocation.New(allocation.DefaultGates(allocation.NewestMinor), options.Classes, slices, nil).Fill(context.Background(), group.Node, 50, claim)
				if err != nil || len(pods) != n.Pods {
					t.Errorf("%d pods, the allocator serves %d: %v", n.Pods, len(pods), err)
				}
				if n.Why == "" {
					t.Error("it does not say why there are no more")
				}
				if n.Pods > 0 && len(n.First) == 0 {
					t.Error("it does not say what the first pod has")
				}
			})
		}
	}
}

// What others hold is not free, and what was stranded before is not the
// claim's doing.
func TestAmongHolders(t *testing.T) {
	group, err := simulate.FromMachine(context.Background(), "a3-ultragpu-8g", nil, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	held := resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "held"}}
	held.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpu", Driver: "gpu.nvidia.com", Pool: "a3-ultragpu-8g", Device: "gpu-0"},
		{Request: "gpu", Driver: "gpu.nvidia.com", Pool: "a3-ultragpu-8g", Device: "gpu-1"},
	}}}
	spec, err := claimgen.Spec(claimgen.Options{GPUs: 1, Align: claimgen.PCIe})
	if err != nil {
		t.Fatal(err)
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gpu"}, Spec: *spec}
	n, err := simulate.Fill(context.Background(), group, explain.OfClaim(claim), simulate.Options{
		Classes: shippedClasses(t), Held: []resourceapi.ResourceClaim{held}, Limit: 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	if n.Pods != 5 || !n.AtLimit || n.Room.GPUs.Free != 1 || len(n.Room.Stranded) != 7 || len(n.Stranded) != 7-2 {
		t.Errorf("%+v, want 5 pods at the limit, 1 GPU free, 5 NICs newly stranded", n)
	}
}

// A tainted device is nobody's who does not tolerate it, whether its slice or a
// rule taints it, as the allocator counts; one who tolerates it has it.
func TestTaints(t *testing.T) {
	taint := resourceapi.DeviceTaint{Key: "maintenance", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	driver, device := "gpu.nvidia.com", "gpu-7"
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "drain"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &driver, Device: &device}, Taint: taint,
	}}
	for _, tolerant := range []bool{false, true} {
		group, err := simulate.FromMachine(context.Background(), "a3-ultragpu-8g", nil, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range group.Slices {
			if s.Spec.Driver == driver {
				s.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{taint}
			}
		}
		spec, err := claimgen.Spec(claimgen.Options{GPUs: 1, NICs: 1, Align: claimgen.PCIe})
		if err != nil {
			t.Fatal(err)
		}
		want := 6
		if tolerant {
			want = 8
			spec.Devices.Requests[0].Exactly.Tolerations = []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
		}
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pair"}, Spec: *spec}
		n, err := simulate.Fill(context.Background(), group, explain.OfClaim(claim), simulate.Options{
			Classes: shippedClasses(t), Rules: []*resourceapi.DeviceTaintRule{rule}, Limit: 50,
		})
		if err != nil || n.Pods != want {
			t.Fatalf("tolerant %t: %+v, want %d pods; %v", tolerant, n, want, err)
		}
		if n.Room.GPUs.Free != 0 {
			t.Errorf("tolerant %t: %d GPUs are free, want none: the rest is tainted", tolerant, n.Room.GPUs.Free)
		}
	}
}

// Half a capacity is half a capacity, as in Kubernetes 1.37
// (DRAFractionalCapacityRange): the gates are those of the newest scheduler, for
// who counts and for who explains.
func TestFractionalCapacity(t *testing.T) {
	node, half := "n1", resource.MustParse("500m")
	s := resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
	s.Spec = resourceapi.ResourceSliceSpec{
		Driver: "example.com", NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		Devices: []resourceapi.Device{{Name: "shared", AllowMultipleAllocations: ptr.To(true),
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"slots": {
				Value:         resource.MustParse("3"),
				RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &half, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &half, Step: &half}},
			}},
		}},
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "half"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "class", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"slots": half}},
	}}}
	group := simulate.NodeGroup{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, Slices: []resourceapi.ResourceSlice{s}}
	n, err := simulate.Fill(context.Background(), group, explain.OfClaim(claim), simulate.Options{
		Classes: map[string]*resourceapi.DeviceClass{"class": {ObjectMeta: metav1.ObjectMeta{Name: "class"}}}, Limit: 50,
	})
	if err != nil || n.Pods != 6 {
		t.Errorf("%d pods have half a slot of three, want 6: %v", n.Pods, err)
	}
}

// A device plugin that has no more left is no reason for the scheduler to make a claim
// in its place.
func TestFullDevicePlugin(t *testing.T) {
	group, err := simulate.FromMachine(t.Context(), "a3-ultragpu-8g", nil, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")},
	}}}
	classes := shippedClasses(t)
	n, err := simulate.Fill(t.Context(), group, explain.OfPod(pod, nil, nil, classes), simulate.Options{Classes: classes, Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	if want := "the node's device plugins have 0 of nvidia.com/gpu, the pod asks for 4"; n.Pods != 2 || n.Why != want {
		t.Errorf("%d pods, %q, want 2 and %q", n.Pods, n.Why, want)
	}
}
