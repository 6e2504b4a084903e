// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/cluster"
)

// live asks the cluster. What files have is judged against its nodes.
func (o *options) live(ctx context.Context, given *objects, refs []reference) (*cluster.Cluster, []explain.Subject, error) {
	client, err := o.client()
	if err != nil {
		return nil, nil, err
	}
	namespace, err := o.cluster.CurrentNamespace()
	if err != nil {
		return nil, nil, err
	}
	files := len(o.files) > 0
	r := reader{ctx: ctx, client: client, in: &objects{classes: map[string]*resourceapi.DeviceClass{}}}
	minor, err := r.version()
	if err != nil {
		return nil, nil, err
	}
	where := namespace
	if o.all {
		where = metav1.NamespaceAll
	}
	notes, err := r.all(where, files)
	if err != nil {
		return nil, nil, err
	}
	known, err := o.snapshot(r.in.with(given), "cluster", minor)
	if err != nil {
		return nil, nil, err
	}
	wanted := r.in
	if files {
		given.claims = append(given.claims, r.in.claims...)
		given.classes = known.Classes
		wanted = given
	}
	subjects, err := wanted.subjects(refs, namespace, o.selector, files)
	if err != nil {
		return nil, nil, err
	}
	kept := subjects[:0]
	for _, s := range subjects {
		// Of the cluster's claims those of the namespace, and none beside the
		// files.
		if len(refs) == 0 && (files && r.hasClaim(&s) || !files && !o.all && s.Namespace != namespace) {
			continue
		}
		s.Notes = append(s.Notes, notes...)
		kept = append(kept, s)
	}
	return known, kept, nil
}

// hasClaim says whether a subject is a claim of the cluster.
func (r *reader) hasClaim(s *explain.Subject) bool {
	if s.Kind != kindClaim {
		return false
	}
	for _, c := range r.in.claims {
		if c.Namespace == s.Namespace && c.Name == s.Name {
			return true
		}
	}
	return false
}

// with adds the classes and claims of files to those of the cluster, in whose
// place they would come.
func (in *objects) with(given *objects) *objects {
	all := *in
	all.classes = map[string]*resourceapi.DeviceClass{}
	for _, from := range []map[string]*resourceapi.DeviceClass{in.classes, given.classes} {
		for name, class := range from {
			all.classes[name] = class
		}
	}
	return &all
}

// reader lists the objects of a cluster.
type reader struct {
	ctx    context.Context
	client kubernetes.Interface
	in     *objects
}

func (r *reader) version() (int, error) {
	info, err := r.client.Discovery().ServerVersion()
	if err != nil {
		return 0, fmt.Errorf("ask the cluster for its version: %w", err)
	}
	minor, err := parseVersion(info.Major + "." + info.Minor)
	if err != nil {
		return cluster.Newest, nil //nolint:nilerr // a version that says nothing: the newest rules are as good as any
	}
	return minor, nil
}

// all lists what is needed. The notes are what one may not read without which an
// answer is still worth something.
func (r *reader) all(namespace string, files bool) ([]string, error) {
	var notes []string
	resources := r.client.ResourceV1()
	for _, list := range []struct {
		what string
		// needless says that there is an answer without.
		needless bool
		page     func(context.Context, metav1.ListOptions) (runtime.Object, error)
	}{
		{"ResourceSlices", false, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resources.ResourceSlices().List(ctx, o)
		}},
		{"DeviceClasses", false, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resources.DeviceClasses().List(ctx, o)
		}},
		{"ResourceClaims", false, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resources.ResourceClaims(metav1.NamespaceAll).List(ctx, o)
		}},
		{"nodes", true, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return r.client.CoreV1().Nodes().List(ctx, o)
		}},
		{"ResourceClaimTemplates", true, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resources.ResourceClaimTemplates(namespace).List(ctx, o)
		}},
		{"pods", true, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if files {
				return &corev1.PodList{}, nil
			}
			return r.client.CoreV1().Pods(namespace).List(ctx, o)
		}},
	} {
		err := pager.New(list.page).EachListItem(r.ctx, metav1.ListOptions{}, r.add)
		switch {
		case err == nil:
		case list.needless && apierrors.IsForbidden(err):
			notes = append(notes, "without "+list.what+": "+cmdutil.OneLine(err))
		default:
			return nil, fmt.Errorf("list %s: %w", list.what, err)
		}
	}
	return notes, nil
}

func (r *reader) add(item runtime.Object) error {
	switch item := item.(type) {
	case *resourceapi.ResourceSlice:
		r.in.slices = append(r.in.slices, item)
	case *resourceapi.DeviceClass:
		r.in.classes[item.Name] = item
	case *resourceapi.ResourceClaim:
		r.in.claims = append(r.in.claims, item)
	case *resourceapi.ResourceClaimTemplate:
		r.in.templates = append(r.in.templates, item)
	case *corev1.Node:
		r.in.nodes = append(r.in.nodes, item)
	case *corev1.Pod:
		r.in.pods = append(r.in.pods, item)
	default:
		return fmt.Errorf("the server answered with a %s", strings.TrimPrefix(fmt.Sprintf("%T", item), "*"))
	}
	return nil
}
