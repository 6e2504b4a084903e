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

	"plumbline.dev/plumbline/internal/explain/cluster"
)

type (
	capacities = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity
	amounts    = map[resourceapi.QualifiedName]resource.Quantity
)

// consumption is what a request takes of each capacity of a device, rounded up
// as the device's policies say. A Why other than None says why it cannot.
func consumption(ask *resourceapi.CapacityRequirements, has capacities, gates cluster.Gates) (amounts, Why) {
	var asked amounts
	if ask != nil {
		asked = ask.Requests
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
