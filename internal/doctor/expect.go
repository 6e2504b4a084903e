// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

// CheckExpect is the check that compares a host with a profile that it should have.
const CheckExpect = "expect"

// Expect compares a host's profile with the one that is wanted, a finding for each field
// of the latter. What that does not name may be anything.
func Expect(want, has hosts.HostProfile) []hosts.Finding {
	var all []hosts.Finding
	wanted, had := valuesOf(want), valuesOf(has)
	for _, f := range fieldsOf(wanted) {
		if _, there := had.devices[f.device]; f.device != "" && f.name != fieldCount && !there {
			continue // that there is no such device is said once
		}
		r := f.finding(CheckExpect, cmp.Or(wanted.devices[f.device], had.devices[f.device]))
		value, known := had.get(f)
		right, _ := wanted.get(f)
		switch {
		case !known:
			r.Verdict, r.Found = hosts.Unknown, f.name+" is not known"
			if f.device != "" {
				r.Found += ": pods may have the devices"
			}
		case value == right:
			r.Verdict, r.Found = hosts.OK, f.name+" "+value
		default:
			m, _ := meaningOf(f)
			r.Verdict, r.Found, r.Want, r.Fix = hosts.Wrong, f.name+" "+value, f.name+" "+right, m.fix
		}
		all = append(all, r)
	}
	return all
}
