// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/doctor"
)

func TestFiguresAreOfEveryCheck(t *testing.T) {
	r := hosts.Report{Findings: []hosts.Finding{
		{Check: "links", Subject: "0000:91:00.0", Verdict: hosts.Wrong},
		{Check: "links", Subject: "0000:92:00.0", Verdict: hosts.Wrong},
		{Check: "links", Subject: "0000:93:00.0", Verdict: hosts.Unknown},
		{Check: "mtu", Verdict: hosts.Wrong},
		{Check: "not among the checks", Verdict: hosts.Wrong},
	}}
	var want []Figure
	for _, c := range doctor.Checks() {
		want = append(want, Figure{c.Name, c.Severity, map[string]int{"links": 2, "mtu": 1}[c.Name]})
	}
	if diff := cmp.Diff(want, Figures(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
