// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"context"
	"fmt"
	"io"
	"strings"

	"plumbline.dev/plumbline/internal/claimgen"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
)

// Bounds of the output for a large cluster.
const (
	mostNames    = 8
	mostRefusals = 5
)

// parts says in how many parts a claim was cut.
func parts(o *claimgen.Options) string {
	n, what, flag := o.NUMANodes, "NUMA node", "--numa-nodes"
	if o.Align == claimgen.Socket {
		n, what, flag = o.Sockets, "socket", "--sockets"
	}
	return fmt.Sprintf("in %d equal parts, each on one %s, because it does not fit in fewer: %s says how many", n, what, flag)
}

// reportShipped says on which shipped machines a claim fits. That it does not fit all of
// them is no warning: who means one names it.
func (c *Candidates) reportShipped(ctx context.Context, o *claimgen.Options, v *verdict, out io.Writer) {
	const yours = "--machine, --live or -f tries yours"
	if len(v.fitting) > 0 {
		fmt.Fprintf(out, "fits %d of the %d machines that plumbline ships: %s; %s\n", len(v.fitting), len(c.groups), names(v.fitting), yours)
		return
	}
	fmt.Fprintf(out, "warning: fits none of the %d machines that plumbline ships; %s\n", len(c.groups), yours)
	helped := map[string][]string{}
	var order []string
	for _, r := range v.refused {
		for _, group := range r.groups {
			flags := c.suggestFlags(ctx, o, group)
			if flags != "" && helped[flags] == nil {
				order = append(order, flags)
			}
			helped[flags] = append(helped[flags], group.Node.Name)
		}
	}
	for _, flags := range order {
		fmt.Fprintf(out, "  with %s it fits %s\n", flags, names(helped[flags]))
	}
	if len(order) == 0 {
		reportRefusals(v.refused, func(*refusal) string { return "" }, out)
	}
}

// reportNamed says it of the nodes that the flags name.
func (c *Candidates) reportNamed(ctx context.Context, o *claimgen.Options, v *verdict, out io.Writer) {
	switch {
	case len(c.groups) == 1 && len(v.fitting) == 1:
		fmt.Fprintf(out, "fits %s\n", names(v.fitting))
	case len(v.fitting) > 0:
		fmt.Fprintf(out, "fits %d of %d: %s\n", len(v.fitting), len(c.groups), names(v.fitting))
	}
	reportRefusals(v.refused, func(r *refusal) string { return c.suggestFlags(ctx, o, r.groups[0]) }, out)
}

func reportRefusals(refused []*refusal, help func(*refusal) string, out io.Writer) {
	for i, r := range refused {
		if i == mostRefusals {
			fmt.Fprintf(out, "and more reasons, of %s\n", plural.Count(len(refused)-i, "kind", "kinds"))
			return
		}
		fmt.Fprintf(out, "warning: does not fit %s: %s\n", names(r.names()), printable.Text(r.Why))
		for _, line := range r.Details {
			fmt.Fprintf(out, "    %s\n", printable.Text(line))
		}
		if flags := help(r); flags != "" {
			fmt.Fprintf(out, "  with %s it fits %s\n", flags, printable.Text(r.groups[0].Node.Name))
		}
	}
}

// names joins the first of them.
func names(all []string) string {
	more := ""
	if n := len(all); n > mostNames {
		all, more = all[:mostNames], fmt.Sprintf(" and %d more", n-mostNames)
	}
	return printable.Text(strings.Join(all, ", ")) + more
}
