// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"plumbline.dev/plumbline/internal/allocation"
)

// evaluation looks at each device of a node for each request.
type evaluation struct {
	*Compiler
	ctx  context.Context
	node *Node
}

func (e *evaluation) request(claim *resourceapi.ResourceClaim, index int) Request {
	r := &claim.Spec.Devices.Requests[index]
	view := Request{Name: r.Name}
	subrequests := Subrequests(index, r)
	if len(subrequests) == 0 {
		a := e.blank(Subrequest{Name: r.Name, Path: fmt.Sprintf("spec.devices.requests[%d]", index)})
		a.Refused = "it has neither exactly nor firstAvailable"
		view.Alternatives = []Alternative{a}
	}
	for _, subrequest := range subrequests {
		view.Alternatives = append(view.Alternatives, e.alternative(subrequest))
	}
	return view
}

// blank is an alternative for which no device is eligible.
func (e *evaluation) blank(subrequest Subrequest) Alternative {
	a := Alternative{Subrequest: subrequest, Why: make([]Why, len(e.node.Devices)), Consumes: make([]amounts, len(e.node.Devices))}
	for d := range a.Why {
		a.Why[d].Obstacle = OtherClass
	}
	return a
}

func (e *evaluation) alternative(subrequest Subrequest) Alternative {
	a := e.blank(subrequest)
	class := e.cluster.Classes[subrequest.Class]
	a.Refused, a.Refusal = e.refuses(&subrequest, class)
	if class == nil {
		return a
	}
	for d := range e.node.Devices {
		a.Why[d] = e.device(&a, class, d)
		if a.Refused == "" && subrequest.All && (a.Why[d].Obstacle == SelectorFails || a.Why[d].Obstacle == CapacityFails) {
			a.Refusal = NotEvaluated
			a.Refused = fmt.Sprintf("it asks for all devices, and of device %s it cannot be said whether it is one: %s",
				e.node.Devices[d].ID, a.Why[d].Detail)
		}
	}
	e.derive(&a)
	return a
}

// refuses finds why the allocator refuses the request before it looks at devices.
func (e *evaluation) refuses(subrequest *Subrequest, class *resourceapi.DeviceClass) (string, Refusal) {
	if what, gate := e.gateOff(subrequest); gate != "" {
		return fmt.Sprintf("it has %s, and feature gate %s is off", what, gate), GateOff
	}
	switch {
	case subrequest.Class == "":
		return "it names no device class", Malformed
	case class == nil:
		return fmt.Sprintf("device class %q does not exist", subrequest.Class), ClassAbsent
	case !subrequest.All && subrequest.Mode != resourceapi.DeviceAllocationModeExactCount:
		return fmt.Sprintf("allocation mode %q is not known", subrequest.Mode), Malformed
	case !subrequest.All && subrequest.Count < 0:
		return fmt.Sprintf("it wants %d devices", subrequest.Count), Malformed
	}
	for i, s := range subrequest.Selectors {
		if s.CEL == nil {
			return fmt.Sprintf("selector %d is of a kind that is not known", i), Malformed
		}
	}
	if !subrequest.All {
		return "", Malformed
	}
	for _, pool := range e.node.Pools {
		if !pool.Usable() {
			return fmt.Sprintf("it asks for all devices, and pool %s %s", pool.ID, pool.Trouble()), PoolUnusable
		}
	}
	return "", Malformed
}

// gateOff finds what a request has that needs a feature gate which is off.
func (e *evaluation) gateOff(subrequest *Subrequest) (what, gate string) {
	gates := e.cluster.Gates
	switch {
	case subrequest.FirstAvailable && !gates.PrioritizedList:
		return "subrequests", allocation.GatePrioritizedList
	case subrequest.Capacity != nil && !gates.ConsumableCapacity && allocation.KnowsConsumableCapacity(gates):
		return "capacity requests", allocation.GateConsumableCapacity
	case len(subrequest.Derives) > 0 && !gates.DerivedAttributes:
		return "derived attributes", allocation.GateDerivedAttributes
	case subrequest.AsksAdmin && !gates.AdminAccess:
		return "adminAccess", allocation.GateAdminAccess
	}
	return "", ""
}

// device finds the first obstacle of a device.
func (e *evaluation) device(a *Alternative, class *resourceapi.DeviceClass, d int) Why {
	if why := e.selected(a, class, d); why.Obstacle != None {
		return why
	}
	device := &e.node.Devices[d]
	if e.cluster.Gates.ConsumableCapacity {
		takes, why := consumption(a.Capacity, device.Device.Capacity, e.cluster.Gates)
		if why.Obstacle != None {
			return why
		}
		if why := checkCapacity(takes, device.Device.Capacity, nil, TooSmall); why.Obstacle != None {
			return why
		}
		a.Consumes[d] = takes
	}
	if !e.cluster.Gates.PartitionableDevices && len(device.Device.ConsumesCounters) > 0 {
		return Why{Obstacle: CountersOff}
	}
	if e.operationsMissing(device) {
		return Why{Obstacle: OperationsOff}
	}
	return e.free(a, device, d)
}

// selected says whether the selectors of class and request match a device, and the node
// can reach it.
func (e *evaluation) selected(a *Alternative, class *resourceapi.DeviceClass, d int) Why {
	device := &e.node.Devices[d]
	if !e.cluster.Gates.DeviceBindingAndStatus && len(device.Device.BindingConditions) > 0 {
		return Why{Obstacle: BindingConditionsOff}
	}
	if why := e.matchSelectors(class.Spec.Selectors, d, OtherClass); why.Obstacle != None {
		why.OfClass = true
		return why
	}
	if why := e.matchSelectors(a.Selectors, d, NotSelected); why.Obstacle != None {
		return why
	}
	if reaches, err := e.cluster.DeviceOnNode(e.node.Node, device.Slice, device.Device); err != nil || !reaches {
		return Why{Obstacle: OtherNode}
	}
	return Why{}
}

// free says whether a device that matches is available.
func (e *evaluation) free(a *Alternative, device *Device, d int) Why {
	if e.cluster.Gates.DeviceTaints {
		if taint := untolerated(device.Device.Taints, a.Tolerations); taint != nil {
			return Why{Obstacle: Tainted, Taint: taint}
		}
	}
	if device.Held != nil && !a.Admin && device.Held.Whole {
		return Why{Obstacle: Taken}
	}
	if device.Held != nil && e.cluster.Gates.ConsumableCapacity {
		return checkCapacity(a.Consumes[d], device.Device.Capacity, device.Held.Consumed, TooLittleLeft)
	}
	return Why{}
}

// matchSelectors evaluates selectors one after the other.
func (e *evaluation) matchSelectors(selectors []resourceapi.DeviceSelector, d int, mismatch Obstacle) Why {
	for i, s := range selectors {
		if s.CEL == nil {
			return Why{Obstacle: mismatch, Selector: i}
		}
		matches, err := e.selectors.evaluate(e.ctx, s.CEL.Expression, &e.node.Devices[d])
		if err != nil {
			return Why{Obstacle: SelectorFails, Selector: i, Detail: err.Error()}
		}
		if !matches {
			return Why{Obstacle: mismatch, Selector: i}
		}
	}
	return Why{}
}

// operationsMissing says whether a device wants node operations to be skipped, and the
// node does not declare that it skips them. Only the experimental variant of the
// allocator checks that, which is used where an alpha feature is on.
func (e *evaluation) operationsMissing(d *Device) bool {
	g := e.cluster.Gates
	if len(d.Slice.Spec.SkipNodeOperations) == 0 {
		return false
	}
	if g.OptionalNodeOperations {
		return !slices.Contains(e.node.Node.Status.DeclaredFeatures, allocation.GateNodeOperations)
	}
	return g.ListTypeAttributes || g.DerivedAttributes || g.CompatibilityGroups
}

// untolerated is the first taint that keeps a request away.
func untolerated(taints []resourceapi.DeviceTaint, tolerations []resourceapi.DeviceToleration) *resourceapi.DeviceTaint {
	for i := range taints {
		switch taints[i].Effect {
		case resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule:
			if !slices.ContainsFunc(tolerations, func(t resourceapi.DeviceToleration) bool {
				return resourceclaim.ToleratesTaint(t, taints[i])
			}) {
				return &taints[i]
			}
		}
	}
	return nil
}

// Refusal is a kind of reasons why the allocator refuses a request before it looks at
// devices.
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
	// TooSmall: the device's whole capacity is less than the request.
	TooSmall
	// CountersOff: the device consumes shared counters and their gate is off.
	CountersOff
	// OperationsOff: the device wants node operations to be skipped, and their gate is off.
	OperationsOff
	// Tainted: a taint is not tolerated.
	Tainted
	// Taken: the device is allocated to another claim.
	Taken
	// TooLittleLeft: other claims consume too much of its capacity.
	TooLittleLeft
	// PartsTaken: other partitions of the same hardware are allocated, which consume the
	// shared counters.
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
	// Detail is what the library says of an error, or the name of a capacity.
	Detail string
	// Counters are those of which too little is left, such as gpu-0/memory.
	Counters []string
	Taint    *resourceapi.DeviceTaint
}
