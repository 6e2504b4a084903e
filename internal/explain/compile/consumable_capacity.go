// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/explain/solver"
)

type (
	capacities = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity
	amounts    = map[resourceapi.QualifiedName]resource.Quantity
)

// consumption is what a request takes of each capacity of a device, rounded up
// as the device's policies say. A Why other than None says why it cannot.
func consumption(requirements *resourceapi.CapacityRequirements, has capacities, gates allocation.Gates) (amounts, Why) {
	var asked amounts
	if requirements != nil {
		asked = requirements.Requests
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if _, found := has[name]; !found {
			return nil, Why{Obstacle: NoSuchCapacity, Detail: string(name)}
		}
	}
	names := slices.Sorted(maps.Keys(has))
	taken := make(amounts, len(has))
	for _, name := range names {
		amount, err := consumed(asked, name, has[name], gates.FractionalCapacityRange)
		if err == nil && amount.Sign() < 0 {
			err = errors.New("an amount below nothing")
		}
		if err != nil {
			return nil, Why{Obstacle: CapacityFails, Detail: fmt.Sprintf("%s: %v", name, err)}
		}
		taken[name] = amount
	}
	for _, name := range names {
		if !allowed(taken[name], has[name].RequestPolicy, gates.FractionalCapacityRange) {
			return nil, Why{Obstacle: AgainstPolicy, Detail: string(name)}
		}
	}
	return taken, Why{}
}

// consumed is what is taken of one capacity: what is asked for, rounded up; else
// the default, and without one all of it.
func consumed(asked amounts, name resourceapi.QualifiedName, has resourceapi.DeviceCapacity, fractional bool) (resource.Quantity, error) {
	policy := has.RequestPolicy
	amount, named := asked[name]
	switch {
	case !named && policy != nil && policy.Default != nil:
		return policy.Default.DeepCopy(), nil
	case !named:
		return has.Value.DeepCopy(), nil
	case policy == nil:
		return amount.DeepCopy(), nil
	case policy.ValidRange != nil && policy.ValidRange.Min != nil:
		return roundUp(amount, policy.ValidRange, fractional)
	}
	for _, valid := range policy.ValidValues {
		if amount.Cmp(valid) <= 0 {
			return valid.DeepCopy(), nil
		}
	}
	return amount.DeepCopy(), nil
}

// roundUp goes up to the next step of a range.
func roundUp(amount resource.Quantity, r *resourceapi.CapacityRequestPolicyRange, fractional bool) (resource.Quantity, error) {
	if amount.Cmp(*r.Min) < 0 {
		return r.Min.DeepCopy(), nil
	}
	if r.Step == nil {
		return amount.DeepCopy(), nil
	}
	scale := resource.Scale(0)
	if inMilli(r, fractional) {
		scale = resource.Milli
	}
	value, exact := scaled(amount, scale)
	if !exact && (scale != 0 || amount.CmpInt64(math.MaxInt64) > 0) {
		return resource.Quantity{}, fmt.Errorf("%s cannot be rounded to steps of %s", amount.String(), r.Step.String())
	}
	least, step := r.Min.ScaledValue(scale), r.Step.ScaledValue(scale)
	if step <= 0 {
		return resource.Quantity{}, fmt.Errorf("a step of %s", r.Step.String())
	}
	steps := (value - least) / step
	if (value-least)%step != 0 {
		steps++
	}
	if least >= 0 && steps > (math.MaxInt64-least)/step {
		return resource.Quantity{}, fmt.Errorf("%s is too much to be rounded to steps of %s", amount.String(), r.Step.String())
	}
	return *resource.NewScaledQuantity(least+step*steps, scale), nil
}

// inMilli says whether a range is computed in thousandths: only with its gate,
// and when all it says is a number of them.
func inMilli(r *resourceapi.CapacityRequestPolicyRange, fractional bool) bool {
	if !fractional {
		return false
	}
	for _, q := range []*resource.Quantity{r.Min, r.Max, r.Step} {
		if q == nil {
			continue
		}
		if _, exact := scaled(*q, resource.Milli); !exact {
			return false
		}
	}
	return r.Step == nil || r.Step.ScaledValue(resource.Milli) >= 1
}

// scaled is the number of units of a scale, and whether that is exactly it.
func scaled(q resource.Quantity, scale resource.Scale) (int64, bool) {
	v := q.ScaledValue(scale)
	return v, resource.NewScaledQuantity(v, scale).Cmp(q) == 0
}

// allowed says whether a policy lets the amount be given out.
func allowed(amount resource.Quantity, policy *resourceapi.CapacityRequestPolicy, fractional bool) bool {
	if policy == nil || policy.Default != nil && amount.Cmp(*policy.Default) == 0 {
		return true
	}
	if r := policy.ValidRange; r != nil {
		if r.Max != nil && amount.Cmp(*r.Max) > 0 {
			return false
		}
		return r.Step == nil || onStep(amount, r, fractional)
	}
	return len(policy.ValidValues) == 0 || slices.ContainsFunc(policy.ValidValues, func(v resource.Quantity) bool { return amount.Cmp(v) == 0 })
}

func onStep(amount resource.Quantity, r *resourceapi.CapacityRequestPolicyRange, fractional bool) bool {
	scale := resource.Scale(0)
	if inMilli(r, fractional) {
		scale = resource.Milli
		if _, exact := scaled(amount, scale); !exact {
			return false
		}
	}
	step := r.Step.ScaledValue(scale)
	var least int64
	if r.Min != nil {
		least = r.Min.ScaledValue(scale)
	}
	return step != 0 && (amount.ScaledValue(scale)-least)%step == 0
}

// units expresses quantities as whole numbers of one unit.
func units(all []resource.Quantity) ([]int64, bool) {
	for _, scale := range []resource.Scale{0, resource.Milli, resource.Micro, resource.Nano} {
		numbers := make([]int64, len(all))
		fits := true
		for i, q := range all {
			v, exact := scaled(q, scale)
			// Room for sums of a few hundred.
			if fits = exact && v < math.MaxInt64/1024 && v > math.MinInt64/1024; !fits {
				break
			}
			numbers[i] = v
		}
		if fits {
			return numbers, true
		}
	}
	return nil, false
}

// sharedCapacity computes what is free of a shared device, and what each request takes of
// it, in units of their own.
func (n *Node) sharedCapacity(d int) {
	device := &n.Devices[d]
	var free []int64
	names := sortedNames(device.Device.Capacity)
	needs := map[*solver.Alternative][]int64{}
	for _, name := range names {
		var askers []*solver.Alternative
		all := []resource.Quantity{remaining(device.Device.Capacity[name].Value, device.Held, name)}
		n.eachAlternative(func(a *Alternative, s *solver.Alternative) {
			if takes := a.Consumes[d]; takes != nil {
				askers, all = append(askers, s), append(all, takes[name])
			}
		})
		numbers, ok := units(all)
		if !ok {
			n.Unsupported = append(n.Unsupported, fmt.Sprintf("device %s: amounts of %s too far apart to be counted", device.ID, name))
			numbers = make([]int64, len(all))
		}
		free = append(free, numbers[0])
		for i, s := range askers {
			needs[s] = append(needs[s], numbers[i+1])
		}
	}
	n.Problem.Devices[d].Free = free
	n.eachAlternative(func(_ *Alternative, s *solver.Alternative) {
		s.Needs[d] = needs[s]
		if s.Needs[d] == nil {
			s.Needs[d] = make([]int64, len(free))
		}
	})
}

func sortedNames(has capacities) []resourceapi.QualifiedName {
	return slices.Sorted(maps.Keys(has))
}

// checkCapacity says whether a device has what is taken, with what others have.
func checkCapacity(takes amounts, has capacities, others amounts, obstacle Obstacle) Why {
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

// remaining is what is free of a capacity.
func remaining(has resource.Quantity, others *snapshot.Held, name resourceapi.QualifiedName) resource.Quantity {
	free := has.DeepCopy()
	if others != nil {
		free.Sub(others.Consumed[name])
	}
	return free
}
