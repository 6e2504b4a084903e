// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"plumbline.dev/plumbline/internal/explain/cluster"
)

// judge looks at the devices of a node.
type judge struct {
	*Compiler
	ctx  context.Context
	node *Node
}

func (j *judge) request(claim *resourceapi.ResourceClaim, index int) Request {
	r := &claim.Spec.Devices.Requests[index]
	view := Request{Name: r.Name}
	asks := Asks(index, r)
	if len(asks) == 0 {
		a := j.blank(Ask{Name: r.Name, Path: fmt.Sprintf("spec.devices.requests[%d]", index)})
		a.Refused = "it has neither exactly nor firstAvailable"
		view.Alternatives = []Alternative{a}
	}
	for _, ask := range asks {
		view.Alternatives = append(view.Alternatives, j.alternative(ask))
	}
	return view
}

// blank is an alternative that no device is for.
func (j *judge) blank(ask Ask) Alternative {
	a := Alternative{Ask: ask, Why: make([]Why, len(j.node.Devices)), Takes: make([]amounts, len(j.node.Devices))}
	for d := range a.Why {
		a.Why[d].Obstacle = OtherClass
	}
	return a
}

func (j *judge) alternative(ask Ask) Alternative {
	a := j.blank(ask)
	class := j.cluster.Classes[ask.Class]
	a.Refused, a.Refusal = j.refuses(&ask, class)
	if class == nil {
		return a
	}
	if len(ask.Derived) > 0 && j.cluster.Gates.DerivedAttributes {
		j.node.NotJudged = append(j.node.NotJudged, fmt.Sprintf("%s has derived attributes (%s)", ask.Name, cluster.GateDerivedAttributes))
	}
	for d := range j.node.Devices {
		a.Why[d] = j.device(&a, class, d)
		if a.Refused == "" && ask.All && (a.Why[d].Obstacle == SelectorFails || a.Why[d].Obstacle == CapacityFails) {
			a.Refusal = NotEvaluated
			a.Refused = fmt.Sprintf("it asks for all devices, and of device %s it cannot be said whether it is one: %s",
				j.node.Devices[d].ID, a.Why[d].Detail)
		}
	}
	return a
}

// refuses finds why the allocator would not begin to look.
func (j *judge) refuses(ask *Ask, class *resourceapi.DeviceClass) (string, Refusal) {
	if what, gate := j.gateOff(ask); gate != "" {
		return fmt.Sprintf("it has %s, and feature gate %s is off", what, gate), GateOff
	}
	switch {
	case ask.Class == "":
		return "it names no device class", Malformed
	case class == nil:
		return fmt.Sprintf("device class %q does not exist", ask.Class), ClassAbsent
	case !ask.All && ask.Mode != resourceapi.DeviceAllocationModeExactCount:
		return fmt.Sprintf("allocation mode %q is not known", ask.Mode), Malformed
	case !ask.All && ask.Count < 0:
		return fmt.Sprintf("it wants %d devices", ask.Count), Malformed
	}
	for i, s := range ask.Selectors {
		if s.CEL == nil {
			return fmt.Sprintf("selector %d is of a kind that is not known", i), Malformed
		}
	}
	if !ask.All {
		return "", Malformed
	}
	for _, pool := range j.node.Pools {
		switch {
		case pool.Incomplete:
			return fmt.Sprintf("it asks for all devices, and pool %s is incomplete: %d of %d slices of generation %d are published",
				pool.ID, pool.Published, pool.Wanted, pool.Generation), PoolUnusable
		case pool.Invalid != "":
			return fmt.Sprintf("it asks for all devices, and pool %s is invalid: %s", pool.ID, pool.Invalid), PoolUnusable
		}
	}
	return "", Malformed
}

// gateOff finds what a request has that needs a feature gate which is off.
func (j *judge) gateOff(ask *Ask) (what, gate string) {
	gates := j.cluster.Gates
	switch {
	case ask.Sub && !gates.PrioritizedList:
		return "subrequests", cluster.GatePrioritizedList
	case ask.Capacity != nil && !gates.ConsumableCapacity && cluster.KnowsConsumable(gates):
		return "capacity requests", cluster.GateConsumableCapacity
	case len(ask.Derived) > 0 && !gates.DerivedAttributes:
		return "derived attributes", cluster.GateDerivedAttributes
	case ask.AsksAdmin && !gates.AdminAccess:
		return "adminAccess", cluster.GateAdminAccess
	}
	return "", ""
}

// device finds the first obstacle of a device.
func (j *judge) device(a *Alternative, class *resourceapi.DeviceClass, d int) Why {
	if why := j.selected(a, class, d); why.Obstacle != None {
		return why
	}
	device := &j.node.Devices[d]
	if j.cluster.Gates.ConsumableCapacity {
		takes, why := consumption(a.Capacity, device.Device.Capacity, j.cluster.Gates)
		if why.Obstacle != None {
			return why
		}
		if why := fitsInto(takes, device.Device.Capacity, nil, TooSmall); why.Obstacle != None {
			return why
		}
		a.Takes[d] = takes
	}
	if !j.cluster.Gates.PartitionableDevices && len(device.Device.ConsumesCounters) > 0 {
		return Why{Obstacle: CountersOff}
	}
	if j.operationsMissing(device) {
		return Why{Obstacle: OperationsOff}
	}
	return j.free(a, device, d)
}

// selected says whether a device is one that a request means.
func (j *judge) selected(a *Alternative, class *resourceapi.DeviceClass, d int) Why {
	device := &j.node.Devices[d]
	if !j.cluster.Gates.DeviceBindingAndStatus && len(device.Device.BindingConditions) > 0 {
		return Why{Obstacle: BindingConditionsOff}
	}
	if why := j.selectors(class.Spec.Selectors, d, OtherClass); why.Obstacle != None {
		why.OfClass = true
		return why
	}
	if why := j.selectors(a.Selectors, d, NotSelected); why.Obstacle != None {
		return why
	}
	if reaches, err := j.cluster.DeviceOnNode(j.node.Node, device.Slice, device.Device); err != nil || !reaches {
		return Why{Obstacle: OtherNode}
	}
	return Why{}
}

// free says whether a device that would do is to be had.
func (j *judge) free(a *Alternative, device *Device, d int) Why {
	if j.cluster.Gates.DeviceTaints {
		if taint := untolerated(device.Device.Taints, a.Tolerations); taint != nil {
			return Why{Obstacle: Tainted, Taint: taint}
		}
	}
	if device.Held != nil && !a.Admin && device.Held.Whole {
		return Why{Obstacle: Taken}
	}
	if device.Held != nil && j.cluster.Gates.ConsumableCapacity {
		return fitsInto(a.Takes[d], device.Device.Capacity, device.Held.Consumed, TooLittleLeft)
	}
	return Why{}
}

// selectors evaluates selectors one after the other.
func (j *judge) selectors(selectors []resourceapi.DeviceSelector, d int, mismatch Obstacle) Why {
	for i, s := range selectors {
		if s.CEL == nil {
			return Why{Obstacle: mismatch, Selector: i}
		}
		matches, err := j.evaluator.evaluate(j.ctx, s.CEL.Expression, &j.node.Devices[d])
		if err != nil {
			return Why{Obstacle: SelectorFails, Selector: i, Detail: err.Error()}
		}
		if !matches {
			return Why{Obstacle: mismatch, Selector: i}
		}
	}
	return Why{}
}

// operationsMissing says whether a device wants node operations to be skipped
// and nobody here skips them. The allocator asks only where an alpha feature
// makes it the experimental one.
func (j *judge) operationsMissing(d *Device) bool {
	g := j.cluster.Gates
	if len(d.Slice.Spec.SkipNodeOperations) == 0 {
		return false
	}
	if g.OptionalNodeOperations {
		return !slices.Contains(j.node.Node.Status.DeclaredFeatures, cluster.GateNodeOperations)
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

// fitsInto says whether a device has what is taken, with what others have.
func fitsInto(takes amounts, has capacities, others amounts, obstacle Obstacle) Why {
	for _, name := range sortedNames(has) {
		sum := takes[name].DeepCopy()
		if other, found := others[name]; found {
			sum.Add(other)
		}
		if sum.Cmp(has[name].Value) > 0 {
			return Why{Obstacle: obstacle, Detail: string(name)}
		}
	}
	return Why{}
}

// left is what is free of a capacity.
func left(has resource.Quantity, others *cluster.Held, name resourceapi.QualifiedName) resource.Quantity {
	free := has.DeepCopy()
	if others != nil {
		free.Sub(others.Consumed[name])
	}
	return free
}
