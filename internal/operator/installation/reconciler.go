// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

// Agents is the name of the agents' DaemonSet.
const Agents = "plumbline-agent"

// settle is how long changes are gathered: while a cluster starts or is updated,
// something changes all the time.
const settle = 2 * time.Second

// Options are what the controller is told.
type Options struct {
	// Namespace has the agents.
	Namespace string
	// Version is the operator's.
	Version string
}

// the is the one request: all objects come to one Installation.
var the = reconcile.Request{NamespacedName: types.NamespacedName{Name: hosts.InstallationName}}

// Add adds the controller to a manager.
func Add(m manager.Manager, o Options) error {
	later := soon{}
	return ctrl.NewControllerManagedBy(m).Named("installation").
		For(&hosts.Installation{}).
		Watches(&appsv1.DaemonSet{}, later).
		Watches(&corev1.Pod{}, later).
		Watches(&resourceapi.ResourceSlice{}, later).
		Watches(&hosts.HostReport{}, later).
		Complete(&reconciler{client: m.GetClient(), options: o, now: metav1.Now})
}

// soon asks for the one Installation a while after whatever has changed.
type soon struct{}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func (soon) Create(_ context.Context, _ event.CreateEvent, q queue)   { q.AddAfter(the, settle) }
func (soon) Update(_ context.Context, _ event.UpdateEvent, q queue)   { q.AddAfter(the, settle) }
func (soon) Delete(_ context.Context, _ event.DeleteEvent, q queue)   { q.AddAfter(the, settle) }
func (soon) Generic(_ context.Context, _ event.GenericEvent, q queue) { q.AddAfter(the, settle) }

var _ handler.EventHandler = soon{}

type reconciler struct {
	client  client.Client
	options Options
	now     func() metav1.Time
}

// Reconcile sums everything up, and writes what has changed.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if request != the {
		return ctrl.Result{}, nil // the schema lets no other in
	}
	is := &hosts.Installation{}
	err := r.client.Get(ctx, the.NamespacedName, is)
	if apierrors.IsNotFound(err) {
		is.Name = hosts.InstallationName
		// Found by the watch, which asks again.
		return ctrl.Result{}, client.IgnoreAlreadyExists(r.client.Create(ctx, is))
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	in, err := r.list(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := is.DeepCopy()
	now.Status = in.summarise(is.Status, r.options.Version, r.now())
	if equality.Semantic.DeepEqual(is.Status, now.Status) {
		return ctrl.Result{}, nil
	}
	if err := r.client.Status().Update(ctx, now); err != nil {
		if apierrors.IsConflict(err) { // what is newer comes by the watch
			return ctrl.Result{RequeueAfter: settle}, nil
		}
		return ctrl.Result{}, fmt.Errorf("write the status of Installation %s: %w", now.Name, err)
	}
	return ctrl.Result{}, nil
}

func (r *reconciler) list(ctx context.Context) (*objects, error) {
	in := &objects{agents: &appsv1.DaemonSet{}}
	switch err := r.client.Get(ctx, types.NamespacedName{Namespace: r.options.Namespace, Name: Agents}, in.agents); {
	case apierrors.IsNotFound(err):
		in.agents = nil
	case err != nil:
		return nil, err
	}
	var pods corev1.PodList
	var slices resourceapi.ResourceSliceList
	var reports hosts.HostReportList
	for _, list := range []client.ObjectList{&pods, &slices, &reports} {
		if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	in.pods, in.slices, in.reports = pods.Items, slices.Items, reports.Items
	return in, nil
}
