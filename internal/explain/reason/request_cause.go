// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/selector"
	"plumbline.dev/plumbline/internal/suggest"
)

// conflictRequests are the requests of the conflict.
func (a *Answer) conflictRequests() []*compile.Request {
	var all []*compile.Request
	for _, i := range a.Conflict {
		if m := a.Members[i]; !m.Constraint {
			all = append(all, &a.Claims[m.Claim].Requests[m.Index])
		}
	}
	return all
}

// FreeDeviceCause is the cause as far as the free devices show it, regardless
// of what the others are held by.
func (a *Answer) FreeDeviceCause() Cause {
	requests, constraints := a.conflictRequests(), a.conflictConstraints()
	if len(constraints) == 0 {
		if len(requests) == 1 {
			return a.requestCause(requests[0])
		}
		names := make([]string, len(requests))
		for i, r := range requests {
			names[i] = r.Name
		}
		return Cause{Code: TooFew, Text: fmt.Sprintf("%s want the same devices, and there are not enough free for all of them", join(names))}
	}
	for i := range constraints {
		if cause := a.constraintCause(&constraints[i]); cause.Code != "" {
			return cause
		}
	}
	return Cause{Code: CountAgainstConstraint, Text: "each value has free devices, but none enough: " + a.constraintTexts(constraints)}
}

// requestCause is why a request cannot be met by itself.
func (a *Answer) requestCause(r *compile.Request) Cause {
	var cause Cause
	for i := range r.Alternatives {
		found := a.alternativeCause(&r.Alternatives[i])
		if i == 0 {
			cause = found
		} else {
			cause.Text += "; " + found.Text
		}
	}
	return cause
}

func (a *Answer) alternativeCause(x *compile.Alternative) Cause {
	count := map[compile.Obstacle]int{}
	matching := 0
	for _, why := range x.Why {
		count[why.Obstacle]++
		if why.Obstacle.Matches() {
			matching++
		}
	}
	ofClass := len(x.Why) - count[compile.OtherClass]
	wants := int(x.Count)
	if x.All {
		wants = max(matching, 1)
	}
	switch {
	case ofClass == 0:
		return a.noneOfClass(x)
	case matching >= wants && count[compile.PartsTaken] > 0 && count[compile.None]+count[compile.PartsTaken] >= wants:
		return Cause{Code: PartitionsTaken, Text: fmt.Sprintf("%s wants %s of class %s; %s of the same hardware as others that are given out, too little left of %s",
			x.Name, amount(x), x.Class, plural.Count(count[compile.PartsTaken], "device is part", "devices are parts"), a.allShortCounters(x))}
	case matching >= wants:
		return Cause{Code: TooFew, Text: fmt.Sprintf("%s wants %s of class %s; %s, %d free%s", x.Name, amount(x), x.Class,
			plural.Count(matching, "device matches", "devices match"), count[compile.None], shortCapacities(x))}
	}
	if cause := a.obstacleCause(x, count, matching, wants); cause.Code != "" {
		return cause
	}
	return Cause{Code: TooFew, Text: fmt.Sprintf("%s wants %s of class %s, and the node has %d that match", x.Name, amount(x), x.Class, matching)}
}

// obstacleCause finds an obstacle without which there would be enough devices of the
// class.
func (a *Answer) obstacleCause(x *compile.Alternative, count map[compile.Obstacle]int, matching, wants int) Cause {
	enough := func(obstacles ...compile.Obstacle) bool {
		sum := matching
		for _, o := range obstacles {
			sum += count[o]
		}
		return sum >= wants && sum > matching
	}
	switch {
	case enough(compile.NoSuchCapacity, compile.AgainstPolicy, compile.TooSmall):
		return Cause{Code: Capacity, Text: a.capacityText(x)}
	case enough(compile.BindingConditionsOff):
		return Cause{Code: GateOff, Text: fmt.Sprintf("%s: the devices have binding conditions, and feature gate %s is off", x.Name, allocation.GateBindingConditions)}
	case enough(compile.CountersOff):
		return Cause{Code: GateOff, Text: fmt.Sprintf("%s: the devices are partitions, and feature gate %s is off", x.Name, allocation.GatePartitionable)}
	case enough(compile.OperationsOff):
		return Cause{Code: GateOff, Text: fmt.Sprintf("%s: the devices want node operations to be skipped, and feature gate %s is off", x.Name, allocation.GateNodeOperations)}
	case count[compile.NotSelected] > 0:
		return a.notSelected(x, matching)
	case count[compile.SelectorFails] > 0:
		return Cause{Code: SelectorAborts, Text: fmt.Sprintf("a selector of %s cannot be evaluated for %s", x.Name, plural.Count(count[compile.SelectorFails], "device", "devices"))}
	}
	return Cause{}
}

// noneOfClass says why the node has no device of the class.
func (a *Answer) noneOfClass(x *compile.Alternative) Cause {
	driver := a.DriverOf(x.Class)
	if driver == "" {
		return Cause{Code: TooFew, Text: fmt.Sprintf("%s wants class %s, and no device of the node is of it", x.Name, x.Class)}
	}
	here := false
	for _, p := range a.Pools {
		if p.ID.Driver != driver {
			continue
		}
		here = true
		switch {
		case p.Incomplete && len(p.Hidden) > 0:
			return Cause{Code: GateOff, Text: fmt.Sprintf("%s: pool %s has compatibility groups, and feature gate %s is off", x.Name, p.ID, allocation.GateCompatibilityGroups)}
		case p.Incomplete:
			return Cause{Code: PoolIncomplete, Text: fmt.Sprintf("%s: pool %s %s", x.Name, p.ID, p.Trouble())}
		case p.Invalid != "":
			return Cause{Code: PoolInvalid, Text: fmt.Sprintf("%s: pool %s %s", x.Name, p.ID, p.Trouble())}
		}
	}
	if here {
		text := fmt.Sprintf("%s wants class %s, and driver %s publishes no such device for the node", x.Name, x.Class, driver)
		if x.Class == slicecodec.ClassShared {
			text += ": a HostPolicy offers NICs to share (links[].share)"
		}
		return Cause{Code: TooFew, Text: text}
	}
	drivers := a.Cluster.Drivers()
	text := fmt.Sprintf("%s wants class %s, and driver %s publishes nothing for the node", x.Name, x.Class, driver)
	switch meant := suggest.Closest(driver, drivers); {
	case slices.Contains(drivers, driver):
		text += ", as it does for others"
	case meant != "":
		text += ", nor anywhere: did the class mean " + meant + "?"
	default:
		text += ", nor anywhere: is it installed?"
	}
	return Cause{Code: DriverAbsent, Text: text}
}

// DriverOf is the driver that a class wants, "" where it does not say.
func (a *Answer) DriverOf(class string) string {
	c := a.Cluster.Classes[class]
	if c == nil {
		return ""
	}
	for _, s := range c.Spec.Selectors {
		if s.CEL == nil {
			continue
		}
		if read, err := selector.Analyse(s.CEL.Expression); err == nil && read.Driver != "" {
			return read.Driver
		}
	}
	return ""
}

// notSelected says which selector keeps devices of the class away, and what
// values the attributes have that it reads.
func (a *Answer) notSelected(x *compile.Alternative, matching int) Cause {
	by := map[int][]int{}
	for d, why := range x.Why {
		if why.Obstacle == compile.NotSelected {
			by[why.Selector] = append(by[why.Selector], d)
		}
	}
	worst := -1
	for i, devices := range by {
		if worst < 0 || len(devices) > len(by[worst]) || len(devices) == len(by[worst]) && i < worst {
			worst = i
		}
	}
	expression := x.Selectors[worst].CEL.Expression
	text := fmt.Sprintf("%s wants %s of class %s; selector %d (%s) takes out %s", x.Name, amount(x), x.Class, worst, expression,
		plural.Count(len(by[worst]), "device", "devices"))
	if matching > 0 {
		text += fmt.Sprintf(" and leaves %d", matching)
	}
	cause := Cause{Code: SelectorMatchesNothing}
	if matching > 0 {
		cause.Code = TooFew
	}
	read, err := selector.Analyse(expression)
	if err != nil {
		cause.Text = text
		return cause
	}
	for _, attribute := range read.Reads {
		name := attribute.String()
		values := a.valuesOf(by[worst], name)
		if len(values) > 0 {
			text += fmt.Sprintf("; their %s is %s", name, strings.Join(values, ", "))
			continue
		}
		if a.HasAttribute(name) {
			text += fmt.Sprintf("; they have no %s", name)
			continue
		}
		cause.Code = AttributeUnknown
		text += fmt.Sprintf("; no device of the cluster has %s", name)
		if meant := a.SuggestAttribute(name); meant != "" {
			text += ": did it mean " + meant + "?"
		}
	}
	cause.Text = text
	return cause
}

// capacityText says what there is of the capacities asked for.
func (a *Answer) capacityText(x *compile.Alternative) string {
	for _, obstacle := range []compile.Obstacle{compile.TooSmall, compile.AgainstPolicy, compile.NoSuchCapacity} {
		for d, why := range x.Why {
			if why.Obstacle != obstacle {
				continue
			}
			name := resourceapi.QualifiedName(why.Detail)
			var asked string
			if x.Capacity != nil {
				if q, named := x.Capacity.Requests[name]; named {
					asked = q.String() + " of "
				}
			}
			switch obstacle {
			case compile.TooSmall:
				has := a.Devices[d].Device.Capacity[name].Value
				return fmt.Sprintf("%s wants %s%s on one device, and %s has %s in all", x.Name, asked, name, a.DeviceName(d), has.String())
			case compile.AgainstPolicy:
				return fmt.Sprintf("%s wants %s%s, and %s gives out %s", x.Name, asked, name, a.DeviceName(d),
					policy(a.Devices[d].Device.Capacity[name].RequestPolicy))
			}
			return fmt.Sprintf("%s wants %s%s, and %s has no such capacity", x.Name, asked, name, a.DeviceName(d))
		}
	}
	return x.Name + " wants a capacity that no device has"
}

// policy says what amounts a capacity is given out in.
func policy(p *resourceapi.CapacityRequestPolicy) string {
	if p == nil {
		return "any amount"
	}
	if r := p.ValidRange; r != nil {
		text := "any amount"
		if r.Min != nil {
			text = "from " + r.Min.String()
		}
		if r.Max != nil {
			text += " to " + r.Max.String()
		}
		if r.Step != nil {
			text += " in steps of " + r.Step.String()
		}
		return text
	}
	var all []string
	for i := range p.ValidValues {
		all = append(all, p.ValidValues[i].String())
	}
	return "only " + strings.Join(all, ", ")
}
