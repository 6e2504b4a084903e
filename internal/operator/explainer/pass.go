// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// pass is the cluster at one time, with what was found out about it.
type pass struct {
	known     *snapshot.Cluster
	templates []*resourceapi.ResourceClaimTemplate
	// packed are the slices whose devices are.
	packed map[*resourceapi.ResourceSlice]*packed
	// broken is what could not be unpacked: what is said without it would be wrong.
	broken atomic.Pointer[error]
	// answers are those of pods that ask for the same: a job's pods are many.
	answers map[string]*explain.Report
}

// startPass takes the cluster as it is known now.
func (e *explainer) startPass() *pass {
	r := &pass{
		templates: kept[*resourceapi.ResourceClaimTemplate](e.objects.templates), answers: map[string]*explain.Report{},
		packed: map[*resourceapi.ResourceSlice]*packed{},
	}
	s := snapshot.Objects{
		Source: "cluster", Minor: e.minor, Gates: e.gates, Nodes: kept[*corev1.Node](e.objects.nodes),
		Slices: kept[*resourceapi.ResourceSlice](e.objects.slices), Unpack: r.unpack, Claims: kept[*resourceapi.ResourceClaim](e.objects.claims),
		Classes: map[string]*resourceapi.DeviceClass{},
	}
	for _, p := range kept[*packed](e.objects.slices) {
		s.Slices = append(s.Slices, &p.ResourceSlice)
		r.packed[&p.ResourceSlice] = p
	}
	for _, class := range kept[*resourceapi.DeviceClass](e.objects.classes) {
		s.Classes[class.Name] = class
	}
	if e.objects.rules != nil {
		s.TaintRules = kept[*resourceapi.DeviceTaintRule](e.objects.rules)
	}
	if explain.Kept(s.Claims, r.templates) {
		s.Gates, _ = explain.GatesOfKept(e.gates, e.said)
	}
	r.known = snapshot.New(s)
	return r
}

// unpack is for the cluster, which looks at one node at a time.
func (r *pass) unpack(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	p := r.packed[slice]
	if p == nil {
		return slice
	}
	whole, err := p.unpack()
	if err != nil {
		r.broken.Store(&err)
		return slice
	}
	return whole
}

// subject is a pod with its claims.
func (r *pass) subject(p *corev1.Pod) explain.Subject {
	return explain.OfPod(p, r.known.Claims, r.templates, r.known.Classes)
}

// explain answers for a pod, once for all pods that ask for the same.
func (r *pass) explain(ctx context.Context, s explain.Subject) (*explain.Report, error) {
	s.Claims = asNamed(s)
	key, err := sameAs(s)
	if err != nil {
		return nil, err
	}
	if known := r.answers[key]; known != nil {
		return known, nil
	}
	report, err := explain.Explain(ctx, r.known, s)
	if err != nil {
		return nil, fmt.Errorf("explain %s: %w", s, err)
	}
	if broken := r.broken.Load(); broken != nil {
		return nil, *broken
	}
	r.answers[key] = report
	return report, nil
}

// asNamed calls claims that were made for a pod as the pod does: their own names
// say nothing to anybody, and pods of one job would all have another answer.
func asNamed(s explain.Subject) []*resourceapi.ResourceClaim {
	names := map[string]string{}
	for _, made := range s.Pod.Status.ResourceClaimStatuses {
		if made.ResourceClaimName != nil {
			names[*made.ResourceClaimName] = made.Name
		}
	}
	var all []*resourceapi.ResourceClaim
	for _, c := range s.Claims {
		if name, made := names[c.Name]; made {
			named := *c
			named.Name = name
			c = &named
		}
		all = append(all, c)
	}
	return all
}

// sameAs is one text for all subjects of which the same is to be said.
func sameAs(s explain.Subject) (string, error) {
	type asked struct {
		Name    string
		Devices resourceapi.DeviceClaim
	}
	var claims []asked
	for _, c := range s.Claims {
		claims = append(claims, asked{c.Name, c.Spec.Devices})
	}
	var nodes []*corev1.NodeSelector
	for _, c := range s.Allocated {
		nodes = append(nodes, c.Status.Allocation.NodeSelector)
	}
	text, err := json.Marshal([]any{
		s.Namespace, claims, nodes, len(s.Allocated), s.Findings, s.Pod.Spec.NodeSelector, s.Pod.Spec.Affinity, s.Pod.Spec.Tolerations,
	})
	if err != nil {
		return "", fmt.Errorf("compare %s with other pods: %w", s, err)
	}
	return string(text), nil
}
