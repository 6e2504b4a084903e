// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

// Options are what the controller is told.
type Options struct {
	// Labels has the labels of Node Feature Discovery set where it is not.
	Labels bool
}

// Add adds the controller to a manager.
func Add(m manager.Manager, o Options) error {
	return ctrl.NewControllerManagedBy(m).Named("nodestatus").
		For(&corev1.Node{}).
		Watches(&hosts.HostReport{}, &handler.EnqueueRequestForObject{}).
		Complete(&reconciler{client: m.GetClient(), options: o, now: time.Now})
}

// reconciler makes a node agree with its report. Each write stands for itself: where it
// ends between two, the next start finds what is left to do.
type reconciler struct {
	client  client.Client
	options Options
	now     func() time.Time
}

// Reconcile looks at the node of a name.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	node, report := &corev1.Node{}, &hosts.HostReport{}
	if err := r.client.Get(ctx, request.NamespacedName, node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var conditions []corev1.NodeCondition
	var labels map[string]string
	switch err := r.client.Get(ctx, request.NamespacedName, report); {
	case err == nil && ofNode(report, node):
		conditions = conditionsOf(&report.Report)
		if r.options.Labels {
			labels = labelsOf(&report.Report)
		}
	case err != nil && !apierrors.IsNotFound(err):
		return ctrl.Result{}, err
	}
	_, err := r.update(ctx, node, conditions, labels)
	return ctrl.Result{}, err
}

// ofNode says whether a report is about this very node: one of the name may have been
// deleted, and another joined, before the report of the old one went.
func ofNode(report *hosts.HostReport, node *corev1.Node) bool {
	return slices.ContainsFunc(report.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Node" && o.Name == node.Name && o.UID == node.UID
	})
}

// update writes what differs, and says whether anything did.
func (r *reconciler) update(ctx context.Context, node *corev1.Node, conditions []corev1.NodeCondition, labels map[string]string) (bool, error) {
	status, err := statusPatch(node, conditions, metav1.NewTime(r.now()))
	if err != nil {
		return false, err
	}
	metadata, err := metadataPatch(labelChange(node, labels))
	if err != nil {
		return false, err
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	if status != nil {
		if err := r.client.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, status)); err != nil {
			return true, fmt.Errorf("write the conditions of node %s: %w", node.Name, err)
		}
	}
	if metadata != nil {
		if err := r.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, metadata)); err != nil {
			return true, fmt.Errorf("write the labels of node %s: %w", node.Name, err)
		}
	}
	return status != nil || metadata != nil, nil
}

// Trim keeps of a Node what is looked at here, and what pools of addresses look at, labels by
// which they choose, and networks that must not be theirs: clusters have thousands.
func Trim(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	small := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
		Labels: node.Labels, Annotations: kept(node.Annotations, ownLabels, discovered),
	}}
	small.Spec.PodCIDRs = node.Spec.PodCIDRs
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			small.Status.Addresses = append(small.Status.Addresses, a)
		}
	}
	for _, c := range node.Status.Conditions {
		if strings.HasPrefix(string(c.Type), prefix) {
			small.Status.Conditions = append(small.Status.Conditions, c)
		}
	}
	return small, nil
}

// kept are the entries whose keys begin with one of the prefixes.
func kept(all map[string]string, prefixes ...string) map[string]string {
	small := maps.Clone(all)
	maps.DeleteFunc(small, func(key, _ string) bool {
		return !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	})
	return small
}
