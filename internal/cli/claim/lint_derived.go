// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/selector"
)

// derives says whether a request derives an attribute.
func (r *request) derives(name string) bool {
	return slices.ContainsFunc(r.derived, func(d resourceapi.DeviceDerivedAttribute) bool { return string(d.Name) == name })
}

// derivedUnder are the requests under a constraint that derive what it compares.
func derivedUnder(c resourceapi.DeviceConstraint, requests []request) []string {
	_, name := comparedBy(c)
	var names []string
	for i := range requests {
		if appliesTo(c.Requests, requests[i]) && requests[i].derives(name) {
			names = append(names, requests[i].name)
		}
	}
	return names
}

// derived checks the attributes that requests derive, by the rules of the API server
// (kubernetes/pkg/apis/resource/validation) and by what devices have.
func (l linter) derived(devices *field.Path, requests []request) {
	if l.o.dropped {
		l.error(&field.Error{Type: field.ErrorTypeRequired, Field: devices.Child("requests").String(), Detail: explain.DroppedText})
	}
	cost, first, known := uint64(0), "", map[string]selector.Analysis{}
	for _, r := range requests {
		at := r.path.Child("derivedAttributes")
		if n := len(r.derived); n > resourceapi.DeviceDerivedAttributesMaxSize {
			l.error(field.TooMany(at, n, resourceapi.DeviceDerivedAttributesMaxSize))
		}
		for i, d := range r.derived {
			first = cmp.Or(first, at.String())
			l.derivedName(at.Index(i).Child("name"), r, i)
			if a, ok := l.expression(at.Index(i).Child("expression"), d.Expression); ok {
				known[r.name+" "+string(d.Name)] = a
				if a.MaxCost <= resourceapi.CELSelectorExpressionMaxCost {
					cost += a.MaxCost // what is too complex by itself is said before
				}
				l.readBy(at.Index(i).Child("expression"), r, a)
			}
		}
	}
	if cost > resourceapi.DeviceClaimDerivedAttributeCELMaxCost {
		l.error(field.Forbidden(devices, fmt.Sprintf("too complex: the expressions of derived attributes may cost %d in all, and the limit of a claim is %d",
			cost, resourceapi.DeviceClaimDerivedAttributeCELMaxCost)))
	}
	l.derivedTypes(devices, requests, known)
	if first != "" {
		l.note(&field.Error{Type: field.ErrorTypeForbidden, Field: first, Detail: l.needsGate()})
	}
}

// needsGate says which feature gate derived attributes need, and where.
func (l linter) needsGate() string {
	if l.o.kept {
		return "the API server keeps derived attributes; the scheduler needs feature gate " + allocation.GateDerivedAttributes + " too, or it gives the claim no devices"
	}
	return "derived attributes need Kubernetes 1.37 and feature gate " + allocation.GateDerivedAttributes +
		" in the API server and the scheduler: an API server without it drops the field without a word"
}

// derivedName checks the name of an attribute that a request derives: its form, that the
// request has it once, and that a constraint compares it.
func (l linter) derivedName(at *field.Path, r request, i int) {
	name := r.derived[i].Name
	if name == "" {
		l.error(field.Required(at, "want a domain and a name, such as derived/place"))
		return
	}
	for _, e := range validate.ResourceFullyQualifiedName(context.Background(), operation.Operation{Type: operation.Create}, at, &name, nil) {
		l.error(e)
	}
	if slices.ContainsFunc(r.derived[:i], func(d resourceapi.DeviceDerivedAttribute) bool { return d.Name == name }) {
		l.error(field.Duplicate(at, string(name)))
	}
	if !slices.ContainsFunc(l.o.claim.Devices.Constraints, func(c resourceapi.DeviceConstraint) bool {
		_, compared := comparedBy(c)
		return compared == string(name) && appliesTo(c.Requests, r)
	}) {
		l.error(field.Invalid(at, string(name), "must be what a matchAttribute or distinctAttribute constraint on this request compares"))
	}
}

// expression checks that an expression compiles to a value that can be compared.
func (l linter) expression(at *field.Path, text string) (selector.Analysis, bool) {
	switch {
	case text == "":
		l.error(field.Required(at, "want a CEL expression that makes a value of a device"))
		return selector.Analysis{}, false
	case len(text) > resourceapi.CELSelectorExpressionMaxLength:
		l.error(field.TooLong(at, text, resourceapi.CELSelectorExpressionMaxLength))
		return selector.Analysis{}, false
	}
	a, err := selector.AnalyseDerived(text)
	if err != nil {
		l.error(field.Invalid(at, text, err.Error()))
		return a, false
	}
	if a.MaxCost > resourceapi.CELSelectorExpressionMaxCost {
		l.error(field.Forbidden(at, fmt.Sprintf("too complex: it may cost %d, and the limit is %d", a.MaxCost, resourceapi.CELSelectorExpressionMaxCost)))
	}
	if strings.HasPrefix(a.Type, "list") {
		l.warning(field.Invalid(at, text, "makes a list, and lists are compared only with feature gate "+allocation.GateListAttributes+" on"))
	}
	return a, true
}

// readBy checks what the expression of a request reads: attributes that there are, and
// none that a device which the selectors leave may lack, since it is evaluated for them
// all, and a device of which it makes no value ends the scheduling of the pod.
func (l linter) readBy(at *field.Path, r request, a selector.Analysis) {
	driver := l.in.driverOf(r.class)
	for _, read := range a.Reads {
		l.attribute(at, read.String())
		if why := whyLacking(read.String(), driver); why != "" && slices.Contains(slicecodec.Drivers(), driver) {
			l.warning(field.Invalid(at, read.String(), why))
		}
	}
	given := l.given(r)
	for _, read := range a.Unguarded {
		if !slices.Contains(given, read) && !alwaysPublished(r.class, driver, read) {
			l.warning(&field.Error{Type: field.ErrorTypeForbidden, Field: at.String(), Detail: fmt.Sprintf(
				`%s is read also of devices that may lack it, which ends the scheduling of the pod: want a selector %q in device.attributes[%q] in the request`,
				read, read.Name, read.Domain)})
		}
	}
}

// given are the attributes that a device has which the selectors of a request and of its
// class leave. One that a selector reads unguarded is among them, as the scheduling ends
// there already.
func (l linter) given(r request) []selector.Attribute {
	selectors := slices.Clone(r.selectors)
	if class := l.in.classes[r.class]; class != nil {
		selectors = append(selectors, class.class.Selectors...)
	}
	var all []selector.Attribute
	for _, s := range selectors {
		if s.CEL == nil {
			continue
		}
		if a, err := selector.Analyse(s.CEL.Expression); err == nil {
			all = append(append(all, a.Given...), a.Unguarded...)
		}
	}
	return all
}

// derivedTypes refuses values of two types where a constraint wants them equal.
func (l linter) derivedTypes(devices *field.Path, requests []request, known map[string]selector.Analysis) {
	for i, c := range l.o.claim.Devices.Constraints {
		if c.MatchAttribute == nil {
			continue
		}
		first, kind := "", ""
		for _, name := range derivedUnder(c, requests) {
			a := known[name+" "+string(*c.MatchAttribute)]
			switch element := strings.TrimSuffix(strings.TrimPrefix(a.Type, "list("), ")"); {
			case element == "" || element == kind || element == "dyn":
			case kind == "":
				first, kind = name, element
			default:
				l.error(field.Invalid(devices.Child("constraints").Index(i).Child("matchAttribute"), string(*c.MatchAttribute), fmt.Sprintf(
					"request %s derives it as %s, and request %s as %s: values of two types are never equal", first, kind, name, element)))
				return
			}
		}
	}
}
