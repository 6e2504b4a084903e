// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimcheck

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// Outcome is one pod, its claim, and what both probes read.
type Outcome struct {
	Pod    *corev1.Pod
	Claim  *resourceapi.ResourceClaim
	Inside Observation
	OnNode Observation
	// FromInside and FromNode are the results by each probe.
	FromInside, FromNode []Result
	// Expected is what the scenario demonstrates, such as "aligned: GPU, NIC
	// and CPUs on one NUMA node".
	Expected Result
}

// OK says whether every result of both probes holds, and the expected one.
func (o Outcome) OK() bool {
	for _, v := range append(append([]Result{o.Expected}, o.FromInside...), o.FromNode...) {
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

// WriteResults prints the results, line by line, both probes side by
// side where they differ.
func WriteResults(w io.Writer, o Outcome) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  %s  claim %s\n", o.Pod.Name, o.Claim.Name)
	for i, v := range o.FromInside {
		fmt.Fprintf(t, "    %s\t%s\t%s\n", Mark(v.OK && o.FromNode[i].OK), v.What, v.Why)
		if n := o.FromNode[i]; n.Why != v.Why {
			fmt.Fprintf(t, "    \t  from the node\t%s\n", n.Why)
		}
	}
	fmt.Fprintf(t, "    %s\t%s\t%s\n", Mark(o.Expected.OK), o.Expected.What, o.Expected.Why)
	return t.Flush()
}

// WriteTable prints one row a pod.
func WriteTable(w io.Writer, outcomes []Outcome) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "POD\tCLAIM\tGPU\tROOT\tNUMA\tNIC\tROOT\tNUMA\tCPUS\tNUMA\tMEMORY\tVERDICT")
	for _, o := range outcomes {
		f := o.Inside
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.Pod.Name, o.Claim.Name,
			columns(f.GPUs), columns(f.NICs), f.CPUs, f.NUMANodes(), f.Mems, outcomeText(o))
	}
	return t.Flush()
}

func outcomeText(o Outcome) string {
	if o.OK() {
		return "as claimed, " + o.Expected.What
	}
	return "WRONG"
}

// columns are name, root and NUMA node; several devices share a cell.
func columns(devices []Device) string {
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
