// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// unscheduled are the pods that the API server is asked for.
const unscheduled = "spec.nodeName=,status.phase=Pending"

// objects are what is known of the cluster.
type objects struct {
	pods, claims, templates, classes, slices, nodes cache.SharedIndexInformer
	// rules are nil where the API server does not know DeviceTaintRules.
	rules cache.SharedIndexInformer
	// revision counts changes of all but pods.
	revision atomic.Int64
	// changed has a value after something has changed.
	changed chan struct{}
}

// newObjects prepares the watches.
func newObjects(client kubernetes.Interface) (*objects, error) {
	o := &objects{
		pods: coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, nil, func(options *metav1.ListOptions) {
			options.FieldSelector = unscheduled
		}),
		claims:    resourceinformers.NewResourceClaimInformer(client, metav1.NamespaceAll, 0, nil),
		templates: resourceinformers.NewResourceClaimTemplateInformer(client, metav1.NamespaceAll, 0, nil),
		classes:   resourceinformers.NewDeviceClassInformer(client, 0, nil),
		slices:    resourceinformers.NewResourceSliceInformer(client, 0, nil),
		nodes:     coreinformers.NewNodeInformer(client, 0, nil),
		changed:   make(chan struct{}, 1),
	}
	served, err := knowsTaintRules(client)
	if err != nil {
		return nil, err
	}
	if served {
		o.rules = resourceinformers.NewDeviceTaintRuleInformer(client, 0, nil)
	}
	for _, informer := range o.all() {
		if err := informer.SetTransform(trim); err != nil {
			return nil, fmt.Errorf("watch the cluster: %w", err)
		}
		ofPods := informer == o.pods
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { o.change(ofPods) },
			DeleteFunc: func(any) { o.change(ofPods) },
			UpdateFunc: func(old, now any) {
				if !same(old, now) {
					o.change(ofPods)
				}
			},
		}); err != nil {
			return nil, fmt.Errorf("watch the cluster: %w", err)
		}
	}
	return o, nil
}

func (o *objects) all() []cache.SharedIndexInformer {
	all := []cache.SharedIndexInformer{o.pods, o.claims, o.templates, o.classes, o.slices, o.nodes}
	if o.rules != nil {
		all = append(all, o.rules)
	}
	return all
}

// knowsTaintRules says whether the API server has DeviceTaintRules: those before
// Kubernetes 1.37 have none of this version, and a watch would wait for ever.
func knowsTaintRules(client kubernetes.Interface) (bool, error) {
	list, err := client.Discovery().ServerResourcesForGroupVersion(resourceapi.SchemeGroupVersion.String())
	if err != nil {
		return false, fmt.Errorf("ask what the API server knows of %s: %w", resourceapi.SchemeGroupVersion, err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "devicetaintrules" }), nil
}

// run watches until ctx ends. It returns once everything has been seen; false
// where ctx ended before.
func (o *objects) run(ctx context.Context) bool {
	var seen []cache.InformerSynced
	for _, informer := range o.all() {
		go informer.RunWithContext(ctx)
		seen = append(seen, informer.HasSynced)
	}
	return cache.WaitForCacheSync(ctx.Done(), seen...)
}

func (o *objects) change(ofPods bool) {
	if !ofPods {
		o.revision.Add(1)
	}
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// same says whether nothing has changed of what is kept: a node's heartbeat is
// no reason to explain anything again.
func same(old, now any) bool {
	switch before := old.(type) {
	case *corev1.Node:
		after, ok := now.(*corev1.Node)
		return ok && equality.Semantic.DeepEqual(before.Labels, after.Labels) &&
			equality.Semantic.DeepEqual(before.Spec, after.Spec) && equality.Semantic.DeepEqual(before.Status, after.Status)
	case *resourceapi.ResourceClaim:
		after, ok := now.(*resourceapi.ResourceClaim)
		return ok && equality.Semantic.DeepEqual(before.Spec, after.Spec) && equality.Semantic.DeepEqual(before.Status, after.Status)
	}
	return false
}

// kept lists what a watch has.
func kept[T any](informer cache.SharedIndexInformer) []T {
	objects := informer.GetStore().List()
	all := make([]T, 0, len(objects))
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			all = append(all, typed)
		}
	}
	return all
}
