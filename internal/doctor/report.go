// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

// Count counts findings by verdict.
func Count(findings []hosts.Finding) map[hosts.Verdict]int {
	n := map[hosts.Verdict]int{}
	for _, f := range findings {
		n[f.Verdict]++
	}
	return n
}

// maxFindings is how many a report has room for (HostReport's schema).
const maxFindings = 256

// Report is what findings come to in a HostReport: those that are not OK, and how many
// there are of each verdict. When it changed, and the host's profile, are left to fill
// in.
func Report(findings []hosts.Finding) hosts.Report {
	n := Count(findings)
	r := hosts.Report{OK: n[hosts.OK], Wrong: n[hosts.Wrong], Unknown: n[hosts.Unknown]}
	for _, f := range findings {
		if len(r.Checks) == 0 || r.Checks[len(r.Checks)-1] != f.Check {
			r.Checks = append(r.Checks, f.Check)
		}
		if f.Verdict != hosts.OK && len(r.Findings) < maxFindings {
			r.Findings = append(r.Findings, f)
		}
	}
	return r
}
