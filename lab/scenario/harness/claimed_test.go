// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

func TestClaimedNIC(t *testing.T) {
	const attribute = "dra.net/ifName"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}}
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "nic", ResourceClaimName: ptr.To("pod-nic")}}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{Devices: []resourceapi.Device{
		{Name: "a"},
		{Name: "b", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{attribute: {StringValue: ptr.To("eth2")}}},
	}}}
	holding := func(devices ...resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-nic"}}
		c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: devices}}
		return c
	}
	gpu := resourceapi.DeviceRequestAllocationResult{Driver: "gpu.nvidia.com", Device: "gpu-0"}
	nic := resourceapi.DeviceRequestAllocationResult{Driver: "dra.net", Device: "b"}
	for name, tt := range map[string]struct {
		objects   []runtime.Object
		want, err string
	}{
		"a NIC beside a GPU": {[]runtime.Object{pod, slice, holding(gpu, nic)}, "eth2", ""},
		"no NIC":             {[]runtime.Object{pod, slice, holding(gpu)}, "", "holds no NIC"},
		"not allocated":      {[]runtime.Object{pod, slice, &resourceapi.ResourceClaim{ObjectMeta: holding().ObjectMeta}}, "", "holds no device"},
		"not published so":   {[]runtime.Object{pod, slice, holding(resourceapi.DeviceRequestAllocationResult{Driver: "dra.net", Device: "a"})}, "", "no slice has dra.net/ifName of NIC a"},
		"no claim":           {[]runtime.Object{&corev1.Pod{ObjectMeta: pod.ObjectMeta}}, "", "has 0 claims of its own, want one"},
	} {
		got, err := Cluster{Client: fake.NewClientset(tt.objects...)}.ClaimedNIC(t.Context(), "ns", "pod", attribute)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %q, %v; want %q, %q", name, got, err, tt.want, tt.err)
		}
	}
}
