// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

// same says whether two reports have one content, whenever they were made.
func same(a, b hosts.Report) bool {
	a.Changed, b.Changed = metav1.Time{}, metav1.Time{}
	return apiequality.Semantic.DeepEqual(a, b)
}

// counting are the checks whose findings have counters in them.
var counting = []string{"pcie-errors", "port-errors"}

// sameButFigures is same without what changes while nothing gets better or worse: the
// counters of errors, and how many findings are right, which is fewer while a pod
// has a link of the host.
func sameButFigures(a, b hosts.Report) bool { return same(withoutFigures(a), withoutFigures(b)) }

func withoutFigures(r hosts.Report) hosts.Report {
	r.OK = 0
	r.Findings = slices.Clone(r.Findings)
	for i := range r.Findings {
		if slices.Contains(counting, r.Findings[i].Check) {
			r.Findings[i].Found = ""
		}
	}
	return r
}
