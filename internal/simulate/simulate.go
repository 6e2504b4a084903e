// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package simulate fills nodes with claims until no more fit, and says what is
// left then. Whether claims fit is explain's verdict, which comes fast also where
// they do not; what they get is the scheduler's own allocator's choice.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/topoview/published"
)

// searchLimit is how long the scheduler looks on one node
// (kubernetes/pkg/scheduler/framework/plugins/dynamicresources, the default of
// its filter timeout).
const searchLimit = 10 * time.Second

// Options are the parameters of Fill that all node groups share.
type Options struct {
	Classes map[string]*resourceapi.DeviceClass
	// Rules taint devices beside what slices say.
	Rules []*resourceapi.DeviceTaintRule
	// Held are claims that hold devices already.
	Held []resourceapi.ResourceClaim
	// Limit is the most pods on a node.
	Limit int
	// Gates are the scheduler's; nil are the defaults of the newest Kubernetes.
	Gates *allocation.Gates
}

// gates are those of the simulated scheduler, here and in explain alike.
func (o *Options) gates() allocation.Gates {
	if o.Gates != nil {
		return *o.Gates
	}
	return allocation.DefaultGates(allocation.NewestMinor)
}

// Node is the result for a node.
type Node struct {
	Name string `json:"node"`
	// Count is how many nodes are alike; everything else is of each of them.
	Count int `json:"count"`
	// Pods is how many pods have their claims, AtLimit that there may be more.
	Pods    int  `json:"pods"`
	AtLimit bool `json:"atLimit,omitempty"`
	// Why says why there are no more.
	Why string `json:"why,omitempty"`
	// Details are what devices there are for each request, where there is no pod.
	Details []string `json:"details,omitempty"`
	// Room is what is left.
	Room topoview.FreeCapacity `json:"room"`
	// Stranded are devices that were not stranded before.
	Stranded []string `json:"stranded,omitempty"`
	// First are the devices of the first pod, "request=device".
	First []string `json:"first,omitempty"`
}

// Fill fills a node group with the claims of pod after pod.
func Fill(ctx context.Context, g NodeGroup, subject explain.Subject, o Options) (*Node, error) {
	f := newFiller(g, subject, o)
	n := &Node{Name: g.Node.Name, Count: max(1, g.Count)}
	before, err := f.topology()
	if err != nil {
		return nil, err
	}
	for n.Pods < o.Limit {
		claims, why, err := f.next(ctx)
		if err != nil {
			return nil, err
		}
		if n.Why = why.message; claims == nil {
			if n.Pods == 0 {
				n.Details = why.details
			}
			break
		}
		if n.Pods == 0 {
			n.First = devices(claims)
		}
		n.Pods++
		f.claims, f.allocator = append(f.claims, claims...), f.allocator.With(claims...)
	}
	n.AtLimit = n.Pods == o.Limit
	after, err := f.topology()
	if err != nil {
		return nil, err
	}
	n.Room = after.Capacity
	was := map[string]bool{}
	for _, name := range before.Capacity.Stranded {
		was[name] = true
	}
	for _, name := range after.Capacity.Stranded {
		if !was[name] {
			n.Stranded = append(n.Stranded, name)
		}
	}
	return n, nil
}

// filler is a node that is being filled.
type filler struct {
	group   NodeGroup
	subject explain.Subject
	options Options
	// published are the slices of the node, tainted the same with the taints of
	// rules, as the scheduler sees them.
	published, tainted []*resourceapi.ResourceSlice
	claims             []*resourceapi.ResourceClaim
	// allocator has the claims too, and the compiled selectors of all searches.
	allocator *allocation.Cluster
	pods      int
}

func newFiller(g NodeGroup, subject explain.Subject, o Options) *filler {
	f := &filler{group: g, subject: subject, options: o}
	for i := range g.Slices {
		f.published = append(f.published, &g.Slices[i])
	}
	for i := range o.Held {
		f.claims = append(f.claims, &o.Held[i])
	}
	f.tainted = f.cluster().Slices
	f.allocator = allocation.New(o.gates(), o.Classes, f.tainted, f.claims)
	return f
}

// cluster is the node with the claims on it, for explain.
func (f *filler) cluster() *snapshot.Cluster {
	return snapshot.New(snapshot.Objects{
		Minor: allocation.NewestMinor, Gates: f.options.gates(), Nodes: []*corev1.Node{f.group.Node},
		Slices: f.published, Classes: f.options.Classes, TaintRules: f.options.Rules, Claims: f.claims,
	})
}

// reason is why the claims of one more pod get no devices.
type reason struct {
	message string
	details []string
}

// next allocates the claims of one more pod, or says why not.
func (f *filler) next(ctx context.Context) ([]*resourceapi.ResourceClaim, reason, error) {
	now := f.cluster()
	report, err := explain.Explain(ctx, now, f.subject)
	if err != nil {
		return nil, reason{}, err
	}
	if report.Verdict == explain.FitsNot || report.Verdict == explain.Aborts {
		return nil, reasonOf(report), nil
	}
	search, cancel := context.WithTimeout(ctx, searchLimit)
	defer cancel()
	asked := f.subject.ClaimsOn(now, f.group.Node)
	pods, _, err := f.allocator.Fill(search, f.group.Node, 1, asked...)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil, reason{message: fmt.Sprintf("the scheduler's search takes longer than its %s", searchLimit)}, nil
	case err != nil:
		return nil, reason{}, err
	case len(pods) == 0:
		return nil, reason{message: "the scheduler's allocator finds no devices"}, nil
	}
	f.pods++
	for i, claim := range pods[0] {
		claim.Name = fmt.Sprintf("%s-%d", asked[i].Name, f.pods)
	}
	f.subject.AssumePod()
	return pods[0], reason{}, nil
}

// reasonOf is what is wrong with the claims, or with the node.
func reasonOf(r *explain.Report) reason {
	for _, g := range r.Groups {
		if g.Message != "" {
			return reason{g.Message, g.Details}
		}
	}
	var all []string
	for _, finding := range r.Findings {
		all = append(all, finding.Message)
	}
	return reason{message: strings.Join(all, "; ")}
}

// topology is the node with the claims on it.
func (f *filler) topology() (*topoview.Topology, error) {
	c := published.Cluster{}
	for _, slice := range f.tainted {
		c.Slices = append(c.Slices, *slice)
	}
	for _, claim := range f.claims {
		c.Claims = append(c.Claims, *claim)
	}
	v, err := c.Node(f.group.Node.Name)
	if err != nil {
		return nil, err
	}
	return v.Topology(), nil
}

func devices(claims []*resourceapi.ResourceClaim) []string {
	var all []string
	for _, claim := range claims {
		for _, r := range claim.Status.Allocation.Devices.Results {
			all = append(all, r.Request+"="+r.Device)
		}
	}
	return all
}
