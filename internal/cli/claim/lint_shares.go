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

// kindOfLink refuses a link of the pod's own where the class chooses whole NICs.
func (l linter) kindOfLink(s schema, r request, c *v1alpha1.NetworkConfig) {
	class, t := l.in.classes[r.class], c.Interface.Type
	if class == nil || t == nil || *t == v1alpha1.TypePassthrough || asksWhetherShared(class.class.Selectors) || asksWhetherShared(r.selectors) {
		return
	}
	l.warning(field.Invalid(l.layerOf(s, "interface.type", r).Child("interface", "type"), *t, fmt.Sprintf(
		"is of NICs that are shared, and class %s chooses whole ones: want class %s", r.class, slicecodec.ClassShared)))
}
