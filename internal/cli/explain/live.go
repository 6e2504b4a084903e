// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// live asks the cluster. What files have is judged against its nodes.
func (o *options) live(ctx context.Context, given *objects, refs []reference) (*snapshot.Cluster, []explain.Subject, error) {
	client, err := o.client()
	if err != nil {
		return nil, nil, err
	}
	namespace, err := o.cluster.CurrentNamespace()
	if err != nil {
		return nil, nil, err
	}
	files := len(o.files) > 0
	r := reader{ctx: ctx, client: client, in: &objects{classes: map[string]*resourceapi.DeviceClass{}, unread: map[string]error{}}}
	minor, err := r.version()
	if err != nil {
		return nil, nil, err
	}
	if err := r.all(o.where(given, namespace), files); err != nil {
		return nil, nil, err
	}
	all := r.in.with(given)
	known, err := o.snapshot(all, "cluster", minor)
	if err != nil {
		return nil, nil, err
	}
	subjects, err := all.subjects(refs, namespace, o.selector, files)
	if err != nil {
		return nil, nil, err
	}
	kept := subjects[:0]
	for _, s := range subjects {
		// What is not named is of the files, or else of the namespace.
		if len(refs) == 0 && (files && !given.has(&s) || !files && !o.all && s.Namespace != namespace) {
			continue
		}
		s.Notes = append(s.Notes, r.notes...)
		kept = append(kept, s)
	}
	return known, kept, nil
}

// where is the namespace of which pods and templates are wanted, "" for all.
func (o *options) where(given *objects, namespace string) string {
	if o.all {
		return metav1.NamespaceAll
	}
	for i, p := range given.pods {
		if i > 0 && p.Namespace != namespace {
			return metav1.NamespaceAll
		}
		namespace = p.Namespace
	}
	return namespace
}

// has says whether a subject is one of these objects.
func (in *objects) has(s *explain.Subject) bool {
	switch s.Kind {
	case kindPod:
		return slices.Contains(in.pods, s.Pod)
	case kindTemplate:
		return slices.ContainsFunc(in.templates, func(t *resourceapi.ResourceClaimTemplate) bool { return t.Namespace == s.Namespace && t.Name == s.Name })
	}
	return slices.ContainsFunc(in.claims, func(c *resourceapi.ResourceClaim) bool { return c.Namespace == s.Namespace && c.Name == s.Name })
}

// with puts the objects of files in the place of those of the cluster that have
// their names.
func (in *objects) with(given *objects) *objects {
	all := *in
	all.classes = maps.Clone(in.classes)
	maps.Copy(all.classes, given.classes)
	all.claims = replaced(in.claims, given.claims)
	all.templates = replaced(in.templates, given.templates)
	all.rules = replaced(in.rules, given.rules)
	all.pods = replaced(in.pods, given.pods)
	return &all
}

func replaced[T metav1.Object](old, given []T) []T {
	all := slices.Clone(given)
	for _, o := range old {
		if !slices.ContainsFunc(given, func(g T) bool { return g.GetNamespace() == o.GetNamespace() && g.GetName() == o.GetName() }) {
			all = append(all, o)
		}
	}
	return all
}
