// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// live reads the cluster. Objects of files are tried on its nodes.
func (o *options) live(ctx context.Context, given *objects, refs []cmdutil.Reference) (*snapshot.Cluster, []explain.Subject, error) {
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
	r.askDerived(given, o.gates, namespace)
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
		s.Notes = append(append(s.Notes, r.notes...), all.notes...)
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
	case cmdutil.KindPod:
		return slices.Contains(in.pods, s.Pod)
	case cmdutil.KindTemplate:
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

// reader lists the objects of a cluster.
type reader struct {
	ctx    context.Context
	client kubernetes.Interface
	in     *objects
	// notes are what one may not read without which an answer is still worth
	// something.
	notes []string
}

func (r *reader) version() (int, error) {
	info, err := r.client.Discovery().ServerVersion()
	if err != nil {
		return 0, fmt.Errorf("ask the cluster for its version: %w", err)
	}
	minor, err := parseVersion(info.Major + "." + info.Minor)
	if err != nil {
		return allocation.NewestMinor, nil //nolint:nilerr // a version that says nothing: the newest rules are as good as any
	}
	return minor, nil
}

type pageOf = func(context.Context, metav1.ListOptions) (runtime.Object, error)

// all lists what is needed: claims everywhere, since they hold devices, pods and
// templates of one namespace or of all.
func (r *reader) all(namespace string, files bool) error {
	api := r.client.ResourceV1()
	for _, need := range []struct {
		resource string
		list     pageOf
	}{
		{"resourceslices", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return api.ResourceSlices().List(ctx, o)
		}},
		{"deviceclasses", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return api.DeviceClasses().List(ctx, o)
		}},
	} {
		if err := r.list(need.list); err != nil {
			return failed(need.resource, err)
		}
	}
	if err := r.claims(namespace); err != nil {
		return err
	}
	for _, list := range []struct {
		resource, kind string
		list           pageOf
	}{
		{"devicetaintrules", "", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return api.DeviceTaintRules().List(ctx, o)
		}},
		{"nodes", "", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return r.client.CoreV1().Nodes().List(ctx, o)
		}},
		{"resourceclaimtemplates", cmdutil.KindTemplate, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return api.ResourceClaimTemplates(namespace).List(ctx, o)
		}},
		{"pods", cmdutil.KindPod, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if files {
				return &corev1.PodList{}, nil
			}
			return r.client.CoreV1().Pods(namespace).List(ctx, o)
		}},
	} {
		err := r.list(list.list)
		switch {
		case err == nil || list.resource == "devicetaintrules" && apierrors.IsNotFound(err): // before 1.37 there are none
		case apierrors.IsForbidden(err):
			r.notes = append(r.notes, fmt.Sprintf("without %s: %s", list.resource, cmdutil.OneLine(err)))
			r.in.unread[list.kind] = err
		default:
			return failed(list.resource, err)
		}
	}
	return nil
}

// claims reads all claims, or where that is forbidden those of the namespace.
func (r *reader) claims(namespace string) error {
	of := func(namespace string) pageOf {
		return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return r.client.ResourceV1().ResourceClaims(namespace).List(ctx, o)
		}
	}
	err := r.list(of(metav1.NamespaceAll))
	if apierrors.IsForbidden(err) && namespace != metav1.NamespaceAll {
		r.notes = append(r.notes, fmt.Sprintf("without the resourceclaims of other namespaces: what those hold counts as free here (%s)", cmdutil.OneLine(err)))
		err = r.list(of(namespace))
	}
	if err != nil {
		return failed("resourceclaims", err)
	}
	return nil
}

func (r *reader) list(list pageOf) error {
	return pager.New(list).EachListItem(r.ctx, metav1.ListOptions{}, r.add)
}

// failed says what would be right where a list without which there is no answer
// cannot be read.
func failed(resource string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("list %s: %w: explain needs a ClusterRole with list of resourceslices, deviceclasses and resourceclaims (resource.k8s.io); "+
			"without it, the events of a pod that waits have plumbline-operator's answer: kubectl events --for pod/NAME", resource, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("list %s: %w: the cluster does not serve resource.k8s.io/v1, which is on in Kubernetes 1.%d and newer", resource, err, oldest)
	}
	return fmt.Errorf("list %s: %w", resource, err)
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
	case *resourceapi.DeviceTaintRule:
		r.in.rules = append(r.in.rules, item)
	case *corev1.Node:
		r.in.nodes = append(r.in.nodes, item)
	case *corev1.Pod:
		r.in.pods = append(r.in.pods, item)
	default:
		return fmt.Errorf("the server answered with a %s", strings.TrimPrefix(fmt.Sprintf("%T", item), "*"))
	}
	return nil
}
