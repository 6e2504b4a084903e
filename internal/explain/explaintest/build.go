// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explaintest

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// Text is the value of an attribute.
func Text(s string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{StringValue: &s}
}

// Number is a whole number.
func Number(n int64) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{IntValue: &n} }

// Flag is true or false.
func Flag(b bool) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{BoolValue: &b} }

// Texts is a list.
func Texts(s ...string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{StringValues: s}
}

// Attributes are those of a device by name.
type Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// Device is a device that one claim has at a time.
func Device(name string, attributes Attributes) resourceapi.Device {
	return resourceapi.Device{Name: name, Attributes: attributes}
}

// Shared is a device that is given out in shares of a capacity.
func Shared(name string, attributes Attributes, capacity, amount string) resourceapi.Device {
	d := Device(name, attributes)
	d.AllowMultipleAllocations = ptr.To(true)
	d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
		resourceapi.QualifiedName(capacity): {Value: resource.MustParse(amount)},
	}
	return d
}

// Slice publishes devices of a driver on a node, as the only slice of its pool.
func Slice(driver, node string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Devices: devices,
			Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
}

// Class is a class of the devices for which the expression holds.
func Class(name, expression string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.DeviceClassSpec{Selectors: Selectors(expression)},
	}
}

// Selectors are CEL selectors.
func Selectors(expressions ...string) []resourceapi.DeviceSelector {
	var all []resourceapi.DeviceSelector
	for _, e := range expressions {
		all = append(all, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: e}})
	}
	return all
}

// Claim is a claim in namespace default.
func Claim(name string, constraints []resourceapi.DeviceConstraint, requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests, Constraints: constraints}},
	}
}

// Request wants a number of devices of a class.
func Request(name, class string, count int64, expressions ...string) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count, Selectors: Selectors(expressions...),
	}}
}

// Match wants the devices of some requests to have one value.
func Match(attribute string, requests ...string) resourceapi.DeviceConstraint {
	return resourceapi.DeviceConstraint{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(attribute)), Requests: requests}
}

// Distinct wants no two of the devices to have one value.
func Distinct(attribute string, requests ...string) resourceapi.DeviceConstraint {
	return resourceapi.DeviceConstraint{DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName(attribute)), Requests: requests}
}

// Holding is a claim that has devices.
func Holding(name string, devices ...snapshot.DeviceID) *resourceapi.ResourceClaim {
	c := Claim(name, nil)
	c.Status.Allocation = &resourceapi.AllocationResult{}
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name + "-0"}}
	for i, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: fmt.Sprintf("r%d", i), Driver: d.Driver, Pool: d.Pool, Device: d.Device,
		})
	}
	return c
}
