// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	resourceapi "k8s.io/api/resource/v1"
)

// Refusal is a kind of reasons why the allocator refuses to begin.
type Refusal uint8

// Refusals.
const (
	// Malformed: the request is not one that can be met.
	Malformed Refusal = iota
	// GateOff: a feature gate is off.
	GateOff
	// ClassAbsent: there is no such device class.
	ClassAbsent
	// PoolUnusable: all devices are wanted, and a pool is incomplete or invalid.
	PoolUnusable
	// NotEvaluated: all devices are wanted, and of one it cannot be said whether
	// it is one.
	NotEvaluated
)

// Obstacle is why a device is not for a request.
type Obstacle uint8

// Obstacles, in the order in which they count: a device has the first.
const (
	// None: the device is free for the request.
	None Obstacle = iota
	// OtherClass: a selector of the class does not match.
	OtherClass
	// NotSelected: a selector of the request does not match.
	NotSelected
	// SelectorFails: a selector cannot be evaluated for the device, which ends
	// the allocation when the allocator comes to it.
	SelectorFails
	// OtherNode: the node does not reach the device.
	OtherNode
	// BindingConditionsOff: the device has binding conditions and the gate is
	// off.
	BindingConditionsOff
	// NoSuchCapacity: the device does not have a capacity that is asked for.
	NoSuchCapacity
	// CapacityFails: the amount asked for cannot be computed, which ends the
	// allocation.
	CapacityFails
	// AgainstPolicy: the device does not give out amounts like that.
	AgainstPolicy
	// TooSmall: the device would not have enough even if nobody had any.
	TooSmall
	// CountersOff: the device is a part of another and the gate is off.
	CountersOff
	// OperationsOff: the device wants a gate for node operations to be on.
	OperationsOff
	// Tainted: a taint is not tolerated.
	Tainted
	// Taken: others have the device.
	Taken
	// TooLittleLeft: others have too much of it.
	TooLittleLeft
	// PartsTaken: other parts of the same hardware are given out.
	PartsTaken
)

// Matches says whether the device is what the request wants, free or not.
func (o Obstacle) Matches() bool {
	return o == None || o >= Tainted
}

// Why is an obstacle with its values.
type Why struct {
	Obstacle Obstacle
	// Selector is the index of the selector.
	Selector int
	// OfClass says that it is one of the class.
	OfClass bool
	// Detail is what the library says of an error, or the name of a capacity or
	// counter.
	Detail string
	Taint  *resourceapi.DeviceTaint
}
