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

// twins publishes one piece of hardware as a device that many have and one that is had whole,
// under one counter, which is in a slice of its own as the API wants it.
func twins(node string) []*resourceapi.ResourceSlice {
	devices, counters := slice(node), slice(node)
	devices.Spec.Pool.ResourceSliceCount, counters.Spec.Pool.ResourceSliceCount = 2, 2
	one := map[string]resourceapi.Counter{"one": {Value: resource.MustParse("1")}}
	for i := range devices.Spec.Devices {
		devices.Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "hardware", Counters: one}}
	}
	counters.Name += "-counters"
	counters.Spec.Devices, counters.Spec.SharedCounters = nil, []resourceapi.CounterSet{{Name: "hardware", Counters: one}}
	return []*resourceapi.ResourceSlice{devices, counters}
}

// Of two devices that consume one counter the allocator gives one, also where one of them is
// given many times: its first share consumes the counter, those after it do not. A driver
// that offers hardware both ways relies on it.
func TestSharedDeviceWithExclusiveTwin(t *testing.T) {
	classes := map[string]*resourceapi.DeviceClass{"class": {ObjectMeta: metav1.ObjectMeta{Name: "class"}}}
	for _, minor := range []int{36, allocation.NewestMinor} {
		for _, order := range [][2]string{{"shared", "whole"}, {"whole", "shared"}} {
			c := allocation.New(allocation.DefaultGates(minor), classes, twins("n1"), nil)
			first, second := claim(order[0], false), claim(order[1], false)
			second.UID = "uid-2"
			want := map[string]int{"shared": 2, "whole": 1}[order[0]]
			pods, full, err := c.Fill(t.Context(), node("n1"), 7, first)
			if err != nil || len(pods) != want {
				t.Fatalf("1.%d, %s: %d pods, want %d; %v", minor, order[0], len(pods), want, err)
			}
			held := full.With()
			held.Claims = held.Claims[:1]
			for what, at := range map[string]*allocation.Cluster{"all of it": full, "the first": held} {
				if got, err := at.Allocate(t.Context(), node("n1"), second); err != nil || got != nil {
					t.Errorf("1.%d: %s is given while %s of %s is held: %v, %v", minor, order[1], what, order[0], got, err)
				}
			}
			if got, err := c.Allocate(t.Context(), node("n1"), first, second); err != nil || got != nil {
				t.Errorf("1.%d: one pod is given %s and %s: %v, %v", minor, order[0], order[1], got, err)
			}
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
