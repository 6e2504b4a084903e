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
	"plumbline.dev/plumbline/internal/plural"
)

// conflictConstraint is a constraint of the conflict.
type conflictConstraint struct {
	claim, index int
	constraint   *resourceapi.DeviceConstraint
	attribute    string
	distinct     bool
	// requests are those of the conflict under it.
	requests []*compile.Request
}

func (a *Answer) conflictConstraints() []conflictConstraint {
	var all []conflictConstraint
	for _, i := range a.Conflict {
		m := a.Members[i]
		if !m.Constraint {
			continue
		}
		t := conflictConstraint{claim: m.Claim, index: m.Index, constraint: &a.Claims[m.Claim].Claim.Spec.Devices.Constraints[m.Index]}
		t.attribute, t.distinct = compile.Attribute(t.constraint)
		for _, k := range a.Conflict {
			r := a.Members[k]
			if r.Constraint || r.Claim != m.Claim {
				continue
			}
			if request := &a.Claims[r.Claim].Requests[r.Index]; t.about(request) {
				t.requests = append(t.requests, request)
			}
		}
		all = append(all, t)
	}
	return all
}

// about says whether a constraint applies to any alternative of a request.
func (t *conflictConstraint) about(r *compile.Request) bool {
	return slices.ContainsFunc(r.Alternatives, func(x compile.Alternative) bool { return compile.Applies(t.constraint, r.Name, &x.Subrequest) })
}

func (a *Answer) constraintTexts(constraints []conflictConstraint) string {
	var all []string
	for i := range constraints {
		all = append(all, a.Wants(&constraints[i]))
	}
	return strings.Join(all, "; ")
}

// Wants says what a constraint wants.
func (a *Answer) Wants(t *conflictConstraint) string {
	names := make([]string, len(t.requests))
	for i, r := range t.requests {
		names[i] = r.Name
	}
	switch {
	case t.distinct:
		return fmt.Sprintf("constraint %d wants a different %s for each device of %s", t.index, t.attribute, join(names))
	case len(names) == 1:
		return fmt.Sprintf("constraint %d wants one %s for all devices of %s", t.index, t.attribute, names[0])
	}
	return fmt.Sprintf("%s wants its %s shared with %s", names[len(names)-1], t.attribute, join(names[:len(names)-1]))
}

// attributeValues is what is known of the values for the requests of a constraint.
type attributeValues struct {
	// common are the values that all have, and all those that any has.
	common, all []string
	kinds       []string
	requests    int
}

// constraintCause is why requests under a constraint cannot be met together; the code is
// empty where this constraint alone is not the reason.
func (a *Answer) constraintCause(t *conflictConstraint) Cause {
	wants := a.Wants(t)
	var s attributeValues
	devices := 0
	for _, r := range t.requests {
		values, kinds, lists := a.freeValues(r, t)
		if cause := a.notCompared(t, r, wants, len(values), lists); cause.Code != "" {
			return cause
		}
		if len(values) == 0 {
			return Cause{}
		}
		if s.requests > 0 && !t.distinct && !slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(s.kinds, k) }) {
			return Cause{Code: AttributeTypes, Text: fmt.Sprintf("%s; for %s it is of type %s, for the others not, and values of two types are never equal",
				wants, r.Name, strings.Join(kinds, " or "))}
		}
		s.add(values, kinds)
		if len(r.Alternatives) > 0 {
			devices += int(r.Alternatives[0].Count)
		}
	}
	switch {
	case !t.distinct && len(s.common) == 0 && s.requests > 0:
		return Cause{Code: NoCommonValue, Text: wants + "; no value has a free device for each"}
	case t.distinct && len(s.all) < devices:
		return Cause{Code: TooFewValues, Text: fmt.Sprintf("%s; %d devices, and %s", wants, devices, plural.Count(len(s.all), "value", "values"))}
	}
	return Cause{}
}

func (s *attributeValues) add(values, kinds []string) {
	if s.requests == 0 {
		s.common = slices.Clone(values)
	} else {
		s.common = slices.DeleteFunc(s.common, func(v string) bool { return !slices.Contains(values, v) })
	}
	s.all = slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.all, values))))
	s.kinds = append(s.kinds, kinds...)
	s.requests++
}

// notCompared finds that what a request's free devices have cannot be compared:
// they do not have the attribute, or as a list.
func (a *Answer) notCompared(t *conflictConstraint, r *compile.Request, wants string, values, lists int) Cause {
	switch {
	case values == 0 && lists == 0 && a.anyFree(r):
		return a.attributeCause(t, r, wants)
	case lists > 0 && !a.Cluster.Gates.ListTypeAttributes && (len(t.requests) > 1 || a.wantsSeveral(r)):
		return Cause{Code: ListAttribute, Text: fmt.Sprintf("%s; for %s that is a list, and lists are compared only with feature gate %s on",
			wants, r.Name, allocation.GateListAttributes)}
	}
	return Cause{}
}

// wantsSeveral says whether a request wants more than one device.
func (a *Answer) wantsSeveral(r *compile.Request) bool {
	return slices.ContainsFunc(r.Alternatives, func(x compile.Alternative) bool { return x.All || x.Count > 1 })
}

// attributeCause says which request has free devices, none with the attribute.
func (a *Answer) attributeCause(t *conflictConstraint, r *compile.Request, wants string) Cause {
	hint := a.versionHint(t)
	if others := a.deriving(t); len(others) > 0 && !derives(r, t.attribute) {
		return Cause{Code: AttributeAbsent, Text: fmt.Sprintf("%s; %s derives it, and no device for %s has it: want it among the derivedAttributes of %s too",
			wants, join(others), r.Name, r.Name)}
	}
	if a.HasAttribute(t.attribute) {
		text := fmt.Sprintf("%s; no device for %s has this attribute", wants, r.Name)
		if hint != "" {
			text += ": " + hint
		}
		return Cause{Code: AttributeAbsent, Text: text}
	}
	where := "cluster"
	if len(a.Cluster.NodeNames()) == 1 {
		where = "node" // simulate asks of each by itself
	}
	text := fmt.Sprintf("%s; no device of the %s has this attribute", wants, where)
	if meant := a.SuggestAttribute(t.attribute); hint != "" {
		text += ": " + hint
	} else if meant != "" {
		text += ": did it mean " + meant + "?"
	}
	return Cause{Code: AttributeUnknown, Text: text}
}

func (a *Answer) anyFree(r *compile.Request) bool {
	for i := range r.Alternatives {
		for _, why := range r.Alternatives[i].Why {
			if why.Obstacle == compile.None {
				return true
			}
		}
	}
	return false
}

// freeValues are the values that the free devices for a request have of the
// attribute of a constraint, with their types; and how many are lists.
func (a *Answer) freeValues(r *compile.Request, t *conflictConstraint) (values, kinds []string, lists int) {
	for i := range r.Alternatives {
		if !compile.Applies(t.constraint, r.Name, &r.Alternatives[i].Subrequest) {
			continue
		}
		for d, why := range r.Alternatives[i].Why {
			if why.Obstacle != compile.None {
				continue
			}
			attribute, err := a.Attribute(&r.Alternatives[i], d, t.attribute)
			if attribute == nil || err != nil {
				continue
			}
			these, list := compile.Values(attribute)
			if list {
				lists++
			}
			for _, v := range these {
				kind, _, _ := strings.Cut(v, " ")
				kinds, values = append(kinds, kind), append(values, v)
			}
		}
	}
	slices.Sort(kinds)
	slices.Sort(values)
	return slices.Compact(values), slices.Compact(kinds), lists
}
