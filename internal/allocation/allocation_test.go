// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package allocation_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/allocation"
)

const driver = "example.com"

// slice publishes one device that is had whole and one that is shared out.
func slice(node string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
	s.Spec = resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		Devices: []resourceapi.Device{
			{Name: "whole", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: ptr.To("whole")}}},
			{
				Name: "shared", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: ptr.To("shared")}},
				AllowMultipleAllocations: ptr.To(true),
				Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"slots": {
					Value: resource.MustParse("5"), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("2"))},
				}},
			},
		},
	}
	return s
}

func claim(kind string, adminAccess bool) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: kind, UID: "uid-" + "1"}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "class", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: `device.attributes["` + driver + `"].kind == "` + kind + `"`,
		}}},
	}}}
	if adminAccess {
		c.Spec.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
	}
	return c
}

func cluster(nodes ...string) *allocation.Cluster {
	classes := map[string]*resourceapi.DeviceClass{"class": {ObjectMeta: metav1.ObjectMeta{Name: "class"}}}
	var published []*resourceapi.ResourceSlice
	for _, node := range nodes {
		published = append(published, slice(node))
	}
	return allocation.New(allocation.DefaultGates(allocation.NewestMinor), classes, published, nil)
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// A whole device is allocated once, a shared one as often as its capacity lasts, and one
// under admin access without limit.
func TestFill(t *testing.T) {
	const limit = 7
	for _, tc := range []struct {
		claim *resourceapi.ResourceClaim
		want  int
	}{
		{claim("whole", false), 1},
		{claim("shared", false), 2},
		{claim("whole", true), limit},
		{claim("absent", false), 0},
	} {
		pods, full, err := cluster("n1", "n2").Fill(context.Background(), node("n2"), limit, tc.claim)
		if err != nil || len(pods) != tc.want {
			t.Errorf("%s: %d pods, want %d; %v", tc.claim.Name, len(pods), tc.want, err)
		}
		for _, claims := range pods {
			if pool := claims[0].Status.Allocation.Devices.Results[0].Pool; pool != "n2" {
				t.Errorf("%s: a device of %s on node n2", tc.claim.Name, pool)
			}
		}
		if err == nil && len(full.Claims) != tc.want {
			t.Errorf("%s: %d claims in the full cluster, want %d", tc.claim.Name, len(full.Claims), tc.want)
		}
	}
}

// A claim that no node can serve is an error, and so is one of a class that is
// not there.
func TestMistakes(t *testing.T) {
	unguarded := claim("whole", false)
	unguarded.Spec.Devices.Requests[0].Exactly.Selectors[0].CEL.Expression = `device.attributes["` + driver + `"].other == 1`
	unclassed := claim("whole", false)
	unclassed.Spec.Devices.Requests[0].Exactly.DeviceClassName = "no-such-class"
	for name, c := range map[string]*resourceapi.ResourceClaim{"unguarded": unguarded, "without class": unclassed} {
		if results, err := cluster("n1").Allocate(context.Background(), node("n1"), c); err == nil {
			t.Errorf("%s: no error, results %v", name, results)
		}
	}
}
