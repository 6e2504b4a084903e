// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"math"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (v *VFConfig) validate(p *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, inRange(p.Child("vlan"), v.VLAN, 0, 4094)...)
	errs = append(errs, inRange(p.Child("vlanQoS"), v.VLANQoS, 0, 7)...)
	errs = append(errs, inRange(p.Child("maxTxRate"), v.MaxTxRate, 0, math.MaxInt32)...)
	errs = append(errs, inRange(p.Child("minTxRate"), v.MinTxRate, 0, math.MaxInt32)...)
	if v.VLANQoS != nil && (v.VLAN == nil || *v.VLAN == 0) {
		errs = append(errs, field.Forbidden(p.Child("vlanQoS"), "only with a vlan of 1-4094"))
	}
	if v.MinTxRate != nil && v.MaxTxRate != nil && *v.MaxTxRate > 0 && *v.MinTxRate > *v.MaxTxRate {
		errs = append(errs, field.Invalid(p.Child("minTxRate"), *v.MinTxRate, "is more than interface.vf.maxTxRate"))
	}
	return errs
}
