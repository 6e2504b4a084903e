// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
)

// writeText prints one pod whole, and of several a line each with what is not
// well below.
func writeText(w io.Writer, r *verify.Report) error {
	if len(r.Pods) == 1 {
		return writePod(w, r.Pods[0])
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAMESPACE\tPOD\tNODE\tAS CLAIMED\tALIGNED\tDEVICES")
	for _, p := range r.Pods {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Namespace, p.Name, p.Node, short(p.AsClaimed), short(p.Aligned), dash(devices(p)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range r.Pods {
		if p.Verdict == string(evaluate.WordAligned) {
			continue
		}
		fmt.Fprintf(w, "\n%s/%s: %s\n", p.Namespace, p.Name, p.Verdict)
		if err := writeFindings(w, p, false); err != nil {
			return err
		}
	}
	return nil
}

// short is an answer; a good one needs no reason.
func short(a verify.Answer) string {
	if a.Status == string(evaluate.True) {
		return a.Status
	}
	return fmt.Sprintf("%s (%s)", a.Status, a.Reason)
}

func devices(p verify.Pod) string {
	var names []string
	for _, t := range p.Components {
		if t.Kind != "cpus" || t.Claim != "" {
			names = append(names, clean(t.Name))
		}
	}
	return strings.Join(names, ", ")
}

func writePod(w io.Writer, p verify.Pod) error {
	fmt.Fprintf(w, "%s/%s on %s: %s\n\n", p.Namespace, p.Name, p.Node, p.Verdict)
	fmt.Fprintf(w, "as claimed  %s (%s)\naligned     %s (%s)\n\n", p.AsClaimed.Status, p.AsClaimed.Reason, p.Aligned.Status, p.Aligned.Reason)
	for _, part := range []func(io.Writer, verify.Pod) error{writeDifferences, writeComponents, writeMatrix, writePairs} {
		if err := part(w, p); err != nil {
			return err
		}
	}
	return writeFindings(w, p, true)
}

// writeDifferences prints what is not as claimed.
func writeDifferences(w io.Writer, p verify.Pod) error {
	if len(p.Differs) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DIFFERS\tATTRIBUTE\tCLAIMED\tOBSERVED")
	for _, d := range p.Differs {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", clean(d.Of), clean(d.Attribute), dash(clean(d.Claimed)), dash(clean(d.Observed)))
	}
	return endTable(w, t)
}

// writePairs prints how near claimed things are, and could be.
func writePairs(w io.Writer, p verify.Pod) error {
	compared := slices.DeleteFunc(slices.Clone(p.Pairs), func(pair verify.Pair) bool { return pair.Nearest == "" })
	if len(compared) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PAIR\tIS\tTHE MACHINE COULD HAVE GIVEN")
	for _, pair := range compared {
		fmt.Fprintf(t, "%s to %s\t%s\t%s\n", clean(pair.A), clean(pair.B), pair.Class, pair.Nearest)
	}
	return endTable(w, t)
}

// endTable leaves an empty line behind a table.
func endTable(w io.Writer, t *tabwriter.Writer) error {
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

func writeComponents(w io.Writer, p verify.Pod) error {
	if len(p.Components) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "IN THE POD\tCLAIMED AS\tPCI\tROOT\tNUMA\tMORE")
	for _, component := range p.Components {
		claimed := "-"
		if component.Request != "" {
			claimed = component.Request + " = " + component.Device
		}
		if component.Resource != "" {
			claimed = "(" + clean(component.Resource) + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", clean(component.Name), claimed, dash(component.PCIAddress), dash(component.PCIeRoot), dash(component.NUMANodes), dash(more(component)))
	}
	return endTable(w, t)
}

// more is what a component has besides its place.
func more(t verify.Component) string {
	var parts []string
	if t.RDMA != "" && t.RDMA != t.Name {
		parts = append(parts, "RDMA "+clean(t.RDMA))
	}
	if i := t.Interrupts; i != nil {
		word := "interrupts"
		if i.Count == 1 {
			word = "interrupt"
		}
		parts = append(parts, fmt.Sprintf("%d %s on CPUs %s of node %s", i.Count, word, i.CPUs, i.NUMANodes))
	}
	if t.CPUs != "" {
		parts = append(parts, "CPUs "+t.CPUs)
	}
	if t.MemoryNodes != "" {
		parts = append(parts, "memory of node "+t.MemoryNodes)
	}
	for _, node := range slices.Sorted(maps.Keys(t.MemoryBytes)) {
		if size := t.MemoryBytes[node]; size > 0 {
			parts = append(parts, fmt.Sprintf("%.1f MiB used on node %d", float64(size)/(1<<20), node))
		}
	}
	return strings.Join(parts, "; ")
}

// writeMatrix prints the classes as nvidia-smi topo -m does.
func writeMatrix(w io.Writer, p verify.Pod) error {
	if len(p.Pairs) == 0 {
		return nil
	}
	class := map[[2]string]string{}
	for _, pair := range p.Pairs {
		class[[2]string{pair.A, pair.B}], class[[2]string{pair.B, pair.A}] = pair.Class, pair.Class
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, component := range p.Components {
		fmt.Fprintf(t, "\t%s", clean(component.Name))
	}
	fmt.Fprintln(t)
	for i, row := range p.Components {
		fmt.Fprint(t, clean(row.Name))
		for j, column := range p.Components {
			cell := dash(class[[2]string{row.Name, column.Name}])
			if i == j {
				cell = "X"
			}
			fmt.Fprintf(t, "\t%s", cell)
		}
		fmt.Fprintln(t)
	}
	return endTable(w, t)
}

func writeFindings(w io.Writer, p verify.Pod, all bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range p.Findings {
		if all || f.State == string(evaluate.StateWrong) || f.State == string(evaluate.StateUnknown) {
			fmt.Fprintf(t, "  %s\t%s\n  \t  %s\n", f.State, clean(f.What), clean(f.Why))
		}
	}
	for _, pair := range p.Pairs {
		if !all && pair.Nearest != "" && pair.Nearest != pair.Class {
			fmt.Fprintf(t, "  far\t%s to %s\n  \t  %s; the machine could have given %s\n", clean(pair.A), clean(pair.B), pair.Class, pair.Nearest)
		}
	}
	return t.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// clean quotes a name that would play with the terminal: interfaces and files
// are called what the pod likes.
func clean(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.QuoteToASCII(s)
	}
	return s
}
