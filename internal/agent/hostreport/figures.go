// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/doctor"
)

// Figure is how often one check found something wrong.
type Figure struct {
	Check    string
	Severity hosts.Severity
	Wrong    int
}

// Figures are those of every check there is, zeros included, so that a series ends at
// zero when all is mended and no finding makes a series of its own.
func Figures(r hosts.Report) []Figure {
	var all []Figure
	for _, c := range doctor.Checks() {
		f := Figure{Check: c.Name, Severity: c.Severity}
		for i := range r.Findings {
			if r.Findings[i].Check == c.Name && r.Findings[i].Verdict == hosts.Wrong {
				f.Wrong++
			}
		}
		all = append(all, f)
	}
	return all
}
