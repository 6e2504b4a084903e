// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Devices tells what a host's checks say of its NICs.
type Devices struct {
	// Tell gets the answers by device name.
	Tell func(map[string]status.Answer)

	// seen is what the last look found; it is told when the next one finds the same,
	// so that a link on its way up, or one that flaps, is not in anybody's events.
	seen, told map[string]status.Answer
}

// Looked takes a report and the NICs that it is about.
func (d *Devices) Looked(r hosts.Report, nics []model.NIC) {
	found := answers(r.Findings, nics)
	if maps.Equal(found, d.seen) && !maps.Equal(found, d.told) {
		d.told = found
		d.Tell(found)
	}
	d.seen = found
}

// answers are for the NICs that are PCI functions. Only what is wrong with the very
// device counts, and what is more than worth knowing: the host as a whole is the
// administrator's to look at.
func answers(findings []hosts.Finding, nics []model.NIC) map[string]status.Answer {
	all := map[string]status.Answer{}
	for _, n := range nics {
		if n.PCI == nil {
			continue
		}
		answer := status.Answer{Status: metav1.ConditionTrue, Reason: status.ReasonHostReady, Message: "no check of the host found anything wrong with the device"}
		var clauses []string
		for _, f := range findings {
			if address, _, _ := strings.Cut(f.Subject, " "); address != n.PCI.String() || f.Verdict != hosts.Wrong || f.Severity == hosts.Information {
				continue
			}
			if len(clauses) == 0 { // what does not work is told before what is slow
				answer.Status, answer.Reason = metav1.ConditionFalse, reason(f.Check)
			}
			clauses = append(clauses, fmt.Sprintf("%s: %s, want %s (%s)", f.Check, f.Found, f.Want, f.Severity))
		}
		if len(clauses) > 0 {
			answer.Message = strings.Join(clauses, "; ")
		}
		all[slicecodec.NICName(n)] = answer
	}
	return all
}

// reason is a check's name as a condition's reason, which takes no hyphen: PcieLink.
func reason(check string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(check, "-") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}
