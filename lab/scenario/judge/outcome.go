// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// Outcome is one pod, its claim, and what both readers found.
type Outcome struct {
	Pod    *corev1.Pod
	Claim  *resourceapi.ResourceClaim
	Inside Facts
	OnNode Facts
	// Verdicts are judged twice, once by each reader.
	FromInside, FromNode []Verdict
	// Wanted is what the scenario is there to show, such as "aligned: GPU, NIC
	// and CPUs on one NUMA node".
	Wanted Verdict
}

// OK says whether every verdict of both readers holds, and the wanted one.
func (o Outcome) OK() bool {
	for _, v := range append(append([]Verdict{o.Wanted}, o.FromInside...), o.FromNode...) {
		if !v.OK {
			return false
		}
	}
	return true
}

// Mark is the word before a finding.
func Mark(ok bool) string {
	if ok {
		return "ok"
	}
	return "WRONG"
}

// WriteVerdicts prints what was judged, line by line, both readers side by
// side where they differ.
func WriteVerdicts(w io.Writer, o Outcome) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  %s  claim %s\n", o.Pod.Name, o.Claim.Name)
	for i, v := range o.FromInside {
		fmt.Fprintf(t, "    %s\t%s\t%s\n", Mark(v.OK && o.FromNode[i].OK), v.What, v.Why)
		if n := o.FromNode[i]; n.Why != v.Why {
			fmt.Fprintf(t, "    \t  from the node\t%s\n", n.Why)
		}
	}
	fmt.Fprintf(t, "    %s\t%s\t%s\n", Mark(o.Wanted.OK), o.Wanted.What, o.Wanted.Why)
	return t.Flush()
}

// WriteTable prints one row a pod.
func WriteTable(w io.Writer, outcomes []Outcome) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "POD\tCLAIM\tGPU\tROOT\tNUMA\tNIC\tROOT\tNUMA\tCPUS\tNUMA\tMEMORY\tVERDICT")
	for _, o := range outcomes {
		f := o.Inside
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.Pod.Name, o.Claim.Name,
			columns(f.GPUs), columns(f.NICs), f.CPUs, f.NUMANodes(), f.Mems, verdictWord(o))
	}
	return t.Flush()
}

func verdictWord(o Outcome) string {
	if o.OK() {
		return "as claimed, " + o.Wanted.What
	}
	return "WRONG"
}

// columns are name, root and NUMA node; several devices share a cell.
func columns(devices []Located) string {
	var names, roots, nodes []string
	for _, d := range devices {
		names = append(names, d.Name[strings.LastIndex(d.Name, "/")+1:]+" "+d.Address.String())
		roots = append(roots, d.Root)
		nodes = append(nodes, fmt.Sprint(d.NUMANode))
	}
	if len(devices) == 0 {
		return "-\t-\t-"
	}
	return strings.Join(names, ", ") + "\t" + strings.Join(roots, ", ") + "\t" + strings.Join(nodes, ", ")
}
