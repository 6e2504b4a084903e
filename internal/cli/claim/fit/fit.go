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
	"plumbline.dev/plumbline/internal/simulate"
	"plumbline.dev/plumbline/internal/topoview"
)

// patience is how long one look at all places may take, so that a claim is
// written soon also for a cluster of thousands of nodes.
const patience = 10 * time.Second

// helpPatience is how long flags that help one place are looked for: those that do
// are found in a moment, and to know that none does can take long.
const helpPatience = 2 * time.Second

// unjudged says why places can say nothing about a claim, "" where they can: no
// shipped machine has GPUs of other classes than NVIDIA's.
func (p *Places) unjudged(o *claimgen.Options) string {
	if !p.shipped || o.GPUs == 0 || o.Class() == slicecodec.DriverGPU {
		return ""
	}
	return fmt.Sprintf("not tried: no machine that plumbline ships has GPUs of class %s; --live or -f tries the nodes that have", o.Class())
}

// Cut cuts a claim in as few equal parts as it fits anywhere in, or in none where
// it does not. What claims hold at the moment is passed over: they end.
func (p *Places) Cut(ctx context.Context, o claimgen.Options) (claimgen.Options, error) {
	if p.unjudged(&o) != "" {
		return o, nil
	}
	search, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	empty := p.simulation
	empty.Held = nil
	probers := make([]*simulate.Prober, len(p.all))
	for i, place := range p.all {
		probers[i] = simulate.NewProber(place, empty)
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

// verdict is what is known of a claim on all places.
type verdict struct {
	fitting []string
	refused []*refusal
	// late is how many were not looked at in time.
	late int
}

// refusal is places that refuse a claim for the same reason.
type refusal struct {
	places []simulate.Place
	simulate.Trial
}

// names are those of the nodes.
func (r *refusal) names() []string {
	var all []string
	for _, place := range r.places {
		all = append(all, place.Node.Name)
	}
	return all
}

// Tell says where a claim fits, and of each place that it does not fit why, and
// which flags help. cut says that nobody but Cut asked for its parts.
func (p *Places) Tell(ctx context.Context, o claimgen.Options, cut bool, out io.Writer) error {
	if why := p.unjudged(&o); why != "" {
		fmt.Fprintln(out, topoview.Printable(why))
		return nil
	}
	search, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := p.judge(search, &o)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if cut {
		fmt.Fprintln(out, parts(&o))
	}
	if p.shipped {
		p.tellShipped(search, &o, v, out)
	} else {
		p.tellNamed(search, &o, v, out)
	}
	if v.late > 0 {
		fmt.Fprintf(out, "not looked at within %s: %s\n", patience, topoview.Count(v.late, "node", "nodes"))
	}
	return ctx.Err()
}

// judge tries a claim on all places, as long as there is time.
func (p *Places) judge(ctx context.Context, o *claimgen.Options) (*verdict, error) {
	spec, err := claimgen.Spec(*o)
	if err != nil {
		return nil, err
	}
	v, known := &verdict{}, map[string]*refusal{}
	for i, place := range p.all {
		trial, err := simulate.NewProber(place, p.simulation).Try(ctx, subjectOf(spec))
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			v.late = len(p.all) - i
			return v, nil
		case err != nil:
			return nil, err
		case trial.Fits:
			v.fitting = append(v.fitting, place.Node.Name)
			continue
		}
		key := trial.Why + "\n" + strings.Join(trial.Details, "\n")
		if known[key] == nil {
			known[key] = &refusal{Trial: trial}
			v.refused = append(v.refused, known[key])
		}
		known[key].places = append(known[key].places, place)
	}
	return v, nil
}

// help are the flags of the first variant that fits a place, "" where none does
// in time. An error is as good as a claim that does not fit.
func (p *Places) help(ctx context.Context, o *claimgen.Options, place simulate.Place) string {
	ctx, cancel := context.WithTimeout(ctx, helpPatience)
	defer cancel()
	prober := simulate.NewProber(place, p.simulation)
	for _, v := range o.Variants() {
		if ok, err := fits(ctx, prober, &v.Options); ok && err == nil {
			return v.Flags
		}
	}
	return ""
}
