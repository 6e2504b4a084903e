// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/selector"
)

// classOfNICs tells of a class of NICs that does not say whether it means those that are
// shared.
func (l linter) classOfNICs() {
	nics := slices.ContainsFunc(l.o.class.Selectors, func(s resourceapi.DeviceSelector) bool {
		if s.CEL == nil {
			return false
		}
		a, err := selector.Analyse(s.CEL.Expression)
		return err == nil && a.Driver == slicecodec.DriverNet
	})
	if !nics || asksWhetherShared(l.o.class.Selectors) {
		return
	}
	l.warning(&field.Error{Type: field.ErrorTypeForbidden, Field: "spec.selectors", Detail: fmt.Sprintf(
		`where a HostPolicy shares NICs, the class chooses those too, of which a claim gets a link and not the NIC: want && !("shared" in device.attributes[%q])`,
		slicecodec.DriverNet)})
}

// asksWhetherShared says whether selectors tell NICs that are shared from others.
func asksWhetherShared(all []resourceapi.DeviceSelector) bool {
	return slices.ContainsFunc(all, func(s resourceapi.DeviceSelector) bool {
		if s.CEL == nil {
			return false
		}
		a, err := selector.Analyse(s.CEL.Expression)
		return err == nil && slices.ContainsFunc(a.Reads, func(read selector.Attribute) bool {
			return read.String() == slicecodec.AttrShared || read.String() == slicecodec.AttrShareType
		})
	})
}

// allOfTwins warns of a request for all NICs that chooses a NIC both whole and in shares: the
// two are one piece of hardware, and no claim gets both.
func (l linter) allOfTwins(r request) {
	class := l.in.classes[r.class]
	if !r.all || r.admin || class == nil || l.in.driverOf(r.class) != slicecodec.DriverNet ||
		asksWhetherShared(class.class.Selectors) || asksWhetherShared(r.selectors) {
		return
	}
	twinned := slices.IndexFunc(l.in.offers, func(o offer) bool { return o.share.AlsoExclusive })
	if twinned < 0 {
		return
	}
	l.warning(field.Invalid(r.path.Child("allocationMode"), resourceapi.DeviceAllocationModeAll, fmt.Sprintf(
		`%s offers a NIC whole and in shares, and a claim for both never fits: want !("shared" in device.attributes[%q]) in a selector`,
		l.in.offers[twinned].from, slicecodec.DriverNet)))
}

// linkSelector checks an expression that finds links, and what it reads. It is false where the
// expression is none.
func (l linter) linkSelector(at *field.Path, expression string) bool {
	a, err := selector.Analyse(expression)
	if err != nil {
		l.error(field.Invalid(at, expression, err.Error()))
		return false
	}
	if a.Driver != "" && a.Driver != slicecodec.DriverNet {
		l.warning(field.Invalid(at, expression, fmt.Sprintf("finds no link: links are of driver %s, not of %s", slicecodec.DriverNet, a.Driver)))
		return true
	}
	for _, read := range a.Reads {
		switch name := read.String(); name {
		case slicecodec.AttrShared, slicecodec.AttrShareType:
			l.warning(field.Invalid(at, name, "a link is seen here as it is published while nobody shares it: leave it out"))
		default:
			l.attribute(at, name)
		}
	}
	for _, read := range a.Unguarded {
		if !alwaysPublished("", slicecodec.DriverNet, read) {
			l.warning(&field.Error{Type: field.ErrorTypeForbidden, Field: at.String(), Detail: fmt.Sprintf(
				`%s is read also of links that may lack it, of which the policy then cannot tell whether it means them: want %q in device.attributes[%q] && before it`,
				read, read.Name, read.Domain)})
		}
	}
	return true
}

// kindOfLink refuses a link of the pod's own where the class chooses whole NICs.
func (l linter) kindOfLink(s schema, r request, c *v1alpha1.NetworkConfig) {
	class, t := l.in.classes[r.class], c.Interface.Type
	if class == nil || t == nil || *t == v1alpha1.TypePassthrough || asksWhetherShared(class.class.Selectors) || asksWhetherShared(r.selectors) {
		return
	}
	l.warning(field.Invalid(l.layerOf(s, "interface.type", r).Child("interface", "type"), *t, fmt.Sprintf(
		"is of NICs that are shared, and class %s chooses whole ones: want class %s", r.class, slicecodec.ClassShared)))
}
