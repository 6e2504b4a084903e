// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/claimgen"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
	"plumbline.dev/plumbline/internal/simulate"
)

// searchTimeout bounds the search over all nodes, so that a claim is written soon also
// for a cluster of thousands.
const searchTimeout = 10 * time.Second

// suggestTimeout bounds the search for flags with which a claim fits a node: those that
// do are found in a moment, and to know that none does can take long.
const suggestTimeout = 10 * time.Second

// notTried says why a claim is not tried, "" where it is: no shipped machine shares its NICs,
// or its GPUs, or has those of other classes than NVIDIA's.
func (c *Candidates) notTried(o *claimgen.Options) string {
	switch {
	case !c.shipped:
		return ""
	case o.Shared:
		return "not tried: no machine that plumbline ships shares its NICs; --live or -f tries the nodes that do"
	case o.GPUs == 0:
		return ""
	case o.TakesShares():
		return "not tried: no machine that plumbline ships shares its GPUs; --live or -f tries the nodes that do"
	case o.Class() == slicecodec.DriverGPU:
		return ""
	}
	return fmt.Sprintf("not tried: no machine that plumbline ships has GPUs of class %s; --live or -f tries the nodes that have", o.Class())
}

// Partition divides a claim into as few equal parts as it fits anywhere in, and leaves it
// whole where it does not. What claims hold at the moment is passed over: they end.
func (c *Candidates) Partition(ctx context.Context, o claimgen.Options) (claimgen.Options, error) {
	if c.notTried(&o) != "" {
		return o, nil
	}
	search, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	empty := c.simulation
	empty.Held = nil
	probers := make([]*simulate.Prober, len(c.groups))
	for i, group := range c.groups {
		probers[i] = simulate.NewProber(group, empty)
	}
	for _, part := range o.InParts() {
		for _, prober := range probers {
			fits, err := fits(search, prober, &part)
			switch {
			case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
				return o, nil
			case err != nil:
				return o, err
			case fits:
				return part, nil
			}
		}
	}
	return o, nil
}

func fits(ctx context.Context, prober *simulate.Prober, o *claimgen.Options) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	spec, err := claimgen.Spec(*o)
	if err != nil {
		return false, err
	}
	return prober.Fits(ctx, subjectOf(spec))
}

func subjectOf(spec *resourceapi.ResourceClaimSpec) explain.Subject {
	return explain.OfClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "claim"}, Spec: *spec})
}

// verdict is where a claim fits, and where not.
type verdict struct {
	fitting []string
	refused []*refusal
	// timedOut is how many were not looked at in time.
	timedOut int
}

// refusal is nodes that a claim does not fit for the same reason.
type refusal struct {
	groups []simulate.NodeGroup
	simulate.Trial
}

// names are those of the nodes.
func (r *refusal) names() []string {
	var all []string
	for _, group := range r.groups {
		all = append(all, group.Node.Name)
	}
	return all
}

// Report writes where a claim fits, and of each node that it does not fit why, and with
// which flags it would. partitioned says that its parts are Partition's choice.
func (c *Candidates) Report(ctx context.Context, o claimgen.Options, partitioned bool, out io.Writer) error {
	if why := c.notTried(&o); why != "" {
		fmt.Fprintln(out, printable.Text(why))
		return nil
	}
	search, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	v, err := c.evaluate(search, &o)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if partitioned {
		fmt.Fprintln(out, parts(&o))
	}
	if c.shipped {
		c.reportShipped(search, &o, v, out)
	} else {
		c.reportNamed(search, &o, v, out)
	}
	if v.timedOut > 0 {
		fmt.Fprintf(out, "not looked at within %s: %s\n", searchTimeout, plural.Count(v.timedOut, "node", "nodes"))
	}
	return ctx.Err()
}

// evaluate tries a claim on all nodes, as long as there is time.
func (c *Candidates) evaluate(ctx context.Context, o *claimgen.Options) (*verdict, error) {
	spec, err := claimgen.Spec(*o)
	if err != nil {
		return nil, err
	}
	v, known := &verdict{}, map[string]*refusal{}
	for i, group := range c.groups {
		trial, err := simulate.NewProber(group, c.simulation).Try(ctx, subjectOf(spec))
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			v.timedOut = len(c.groups) - i
			return v, nil
		case err != nil:
			return nil, err
		case trial.Fits:
			v.fitting = append(v.fitting, group.Node.Name)
			continue
		}
		key := trial.Why + "\n" + strings.Join(trial.Details, "\n")
		if known[key] == nil {
			known[key] = &refusal{Trial: trial}
			v.refused = append(v.refused, known[key])
		}
		known[key].groups = append(known[key].groups, group)
	}
	return v, nil
}

// suggestFlags are the flags of the first variant that fits a group, "" where none does
// in time. An error is as good as a claim that does not fit.
func (c *Candidates) suggestFlags(ctx context.Context, o *claimgen.Options, group simulate.NodeGroup) string {
	ctx, cancel := context.WithTimeout(ctx, suggestTimeout)
	defer cancel()
	prober := simulate.NewProber(group, c.simulation)
	for _, v := range o.Variants() {
		if ok, err := fits(ctx, prober, &v.Options); ok && err == nil {
			return v.Flags
		}
	}
	return ""
}
