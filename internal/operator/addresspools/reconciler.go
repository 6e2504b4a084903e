// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addresspools

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/internal/addresspool"
)

// nodeGoneFor is how long a node must have been away, or without an agent, before claims alone
// decide about its block: one that is made again under its name is the same machine, with the
// same pods.
const nodeGoneFor = 10 * time.Minute

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	c := m.GetClient()
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return everyPool(ctx, c) })
	return ctrl.NewControllerManagedBy(m).Named("addresspools").
		For(&nets.NetworkAddressPool{}).
		// Which pools overlap changes with them.
		Watches(&nets.NetworkAddressPool{}, all, builder.WithPredicates(comesAndGoes)).
		Watches(&nets.NetworkAddressBlock{}, handler.EnqueueRequestsFromMapFunc(poolOf)).
		Watches(&nets.NetworkAddressBlock{}, all, builder.WithPredicates(goes)).
		Watches(&hosts.HostReport{}, all, builder.WithPredicates(comesAndGoes)).
		Watches(&corev1.Node{}, all, builder.WithPredicates(predicate.Funcs{UpdateFunc: nodeDiffers})).
		Watches(&networkingv1.ServiceCIDR{}, all).
		// Numbers are taken one pool after another: two of one pool would be in each
		// other's way, and two pools that overlap would not see each other's blocks.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(&reconciler{client: c, direct: m.GetAPIReader(), now: time.Now})
}

// comesAndGoes leaves out what changes within objects of which only the names are looked at.
var comesAndGoes = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// goes are the ends of blocks, whose addresses another pool may have room for.
var goes = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(event.UpdateEvent) bool { return false },
}

// nodeDiffers says whether a node changed in what is looked at: its heartbeat comes every few
// minutes, from thousands.
func nodeDiffers(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	now, ok2 := e.ObjectNew.(*corev1.Node)
	return !ok || !ok2 || !maps.Equal(before.Labels, now.Labels) || !slices.Equal(before.Spec.PodCIDRs, now.Spec.PodCIDRs) ||
		!slices.Equal(before.Status.Addresses, now.Status.Addresses)
}

func poolOf(_ context.Context, o client.Object) []reconcile.Request {
	block, ok := o.(*nets.NetworkAddressBlock)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: block.Spec.Pool}}}
}

func everyPool(ctx context.Context, c client.Client) []reconcile.Request {
	var pools nets.NetworkAddressPoolList
	if err := c.List(ctx, &pools); err != nil {
		return nil // the next event asks again
	}
	var requests []reconcile.Request
	for _, p := range pools.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: p.Name}})
	}
	return requests
}

type reconciler struct {
	client client.Client
	// direct asks the API server itself: for claims, which no other controller here keeps
	// and which are asked for when a node has gone alone, and for blocks before one is made.
	direct client.Reader
	now    func() time.Time
}

// view is what a look at a pool goes by.
type view struct {
	pool    *nets.NetworkAddressPool
	subnets []addresspool.Subnet
	// blocks are the pool's, by number; taken are the numbers of which blocks of other pools
	// have addresses, with those blocks' names.
	blocks map[int]*nets.NetworkAddressBlock
	taken  map[int]string
	// barren are the numbers of blocks without an address to give, for exclude has them.
	barren map[int]bool
	// wanted are the nodes that are to have a block; served are those there are that have
	// an agent, which gives blocks back.
	wanted map[string]bool
	served map[string]bool
	// claimed are the nodes without an agent that have had their time, and on which claims
	// are allocated.
	claimed map[string]bool
	// wrong says why no blocks are made; empty where they are.
	wrong string
}

// Reconcile looks at the pool of a name.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	pool := &nets.NetworkAddressPool{}
	if err := r.client.Get(ctx, request.NamespacedName, pool); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	v, err := r.look(ctx, pool)
	if err != nil {
		return ctrl.Result{}, err
	}
	if pool.DeletionTimestamp == nil && controllerutil.AddFinalizer(pool, nets.BlockFinalizer) {
		return ctrl.Result{}, r.client.Update(ctx, pool) // the change comes back
	}
	again, err := r.release(ctx, v)
	if err != nil {
		return ctrl.Result{}, err
	}
	lacking, err := r.carve(ctx, &v)
	if err != nil {
		return ctrl.Result{}, err
	}
	if pool.DeletionTimestamp != nil && len(v.blocks) == 0 {
		return ctrl.Result{}, r.end(ctx, &v)
	}
	return ctrl.Result{RequeueAfter: again}, r.tell(ctx, v, lacking)
}

// look reads what there is.
func (r *reconciler) look(ctx context.Context, pool *nets.NetworkAddressPool) (view, error) {
	v := view{pool: pool, wanted: map[string]bool{}, served: map[string]bool{}, claimed: map[string]bool{}}
	var pools nets.NetworkAddressPoolList
	var blocks nets.NetworkAddressBlockList
	var nodes corev1.NodeList
	var reports hosts.HostReportList
	var services networkingv1.ServiceCIDRList
	for _, list := range []client.ObjectList{&pools, &blocks, &nodes, &reports, &services} {
		if err := r.client.List(ctx, list); err != nil {
			return v, err
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(&pool.Spec.NodeSelector)
	if err == nil {
		v.subnets, err = subnetsOf(pool)
	}
	if err != nil {
		v.wrong = err.Error()
	} else {
		v.wrong = wrongWith(pool, v.subnets, pools.Items, nodes.Items, services.Items)
	}
	v.sort(blocks.Items)
	reported := map[string]bool{}
	for _, report := range reports.Items {
		reported[report.Name] = true
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		v.served[n.Name] = reported[n.Name]
		if v.wrong == "" && pool.DeletionTimestamp == nil && reported[n.Name] && selector.Matches(labelsOf(n)) {
			v.wanted[n.Name] = true
		}
	}
	return v, nil
}

// sort takes what blocks there are.
func (v *view) sort(all []nets.NetworkAddressBlock) {
	v.blocks = map[int]*nets.NetworkAddressBlock{}
	for i := range all {
		b := &all[i]
		if number, ok := numberOf(b.Name, v.pool.Name); ok && b.Spec.Pool == v.pool.Name {
			v.blocks[number] = b
		}
	}
	v.taken, v.barren = nil, nil
	if v.wrong == "" {
		v.taken, v.barren = takenBy(v.pool.Name, v.subnets, all), barrenOf(v.subnets)
	}
}

// numberOf reads POOL.NUMBER.
func numberOf(name, pool string) (int, bool) {
	text, ok := strings.CutPrefix(name, pool+".")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil && n >= 0 && strconv.Itoa(n) == text
}

// release deletes the blocks of nodes that are to have none, and lets those go that were given
// back. again is when to look anew, zero where an event will say so.
func (r *reconciler) release(ctx context.Context, v view) (again time.Duration, err error) {
	for number, b := range v.blocks {
		if b.DeletionTimestamp == nil {
			if v.wanted[b.Spec.Node] || v.wrong != "" && v.pool.DeletionTimestamp == nil {
				continue // what is wrong with the pool takes nothing from who has it
			}
			if err := r.client.Delete(ctx, b, client.Preconditions{UID: &b.UID, ResourceVersion: &b.ResourceVersion}); client.IgnoreNotFound(err) != nil {
				return 0, fmt.Errorf("delete block %s: %w", b.Name, err)
			}
			continue
		}
		free := b.Status.GivenBack
		if !free && !v.served[b.Spec.Node] {
			if wait := b.DeletionTimestamp.Add(nodeGoneFor).Sub(r.now()); wait > 0 {
				again = cmp.Or(again, wait)
				again = min(again, wait)
				continue
			}
			if free, err = r.unclaimed(ctx, b.Spec.Node); err != nil {
				return 0, err
			}
			if !free {
				v.claimed[b.Spec.Node] = true
				again = cmp.Or(again, nodeGoneFor)
			}
		}
		if !free || !controllerutil.RemoveFinalizer(b, nets.BlockFinalizer) {
			continue
		}
		if err := r.client.Update(ctx, b); client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("let block %s go: %w", b.Name, err)
		}
		delete(v.blocks, number)
	}
	return again, nil
}

// end lets a pool go that is deleted, if the API server itself has no block of it: one that was
// made a moment ago may not have been read yet, and nobody would look after it.
func (r *reconciler) end(ctx context.Context, v *view) error {
	var now nets.NetworkAddressBlockList
	if err := r.direct.List(ctx, &now); err != nil {
		return fmt.Errorf("list blocks: %w", err)
	}
	if v.sort(now.Items); len(v.blocks) > 0 {
		return nil // their events have another look made
	}
	controllerutil.RemoveFinalizer(v.pool, nets.BlockFinalizer)
	return client.IgnoreNotFound(r.client.Update(ctx, v.pool))
}

// unclaimed says whether no claim is allocated on a node that has gone, or has no agent.
func (r *reconciler) unclaimed(ctx context.Context, node string) (bool, error) {
	var claims resourceapi.ResourceClaimList
	if err := r.direct.List(ctx, &claims); err != nil {
		return false, err
	}
	return !slices.ContainsFunc(claims.Items, func(c resourceapi.ResourceClaim) bool {
		return c.Status.Allocation != nil && slices.ContainsFunc(c.Status.Allocation.Devices.Results, func(d resourceapi.DeviceRequestAllocationResult) bool {
			return d.Pool == node
		})
	}), nil
}

// carve makes the blocks that are lacking, of the least free numbers, and returns the nodes
// for which there is none. What was read of blocks may be old, and names tell apart those of
// one pool alone: the API server is asked for all of them first.
func (r *reconciler) carve(ctx context.Context, v *view) (lacking []string, err error) {
	nodes := v.without()
	if len(nodes) == 0 || v.free() == 0 {
		return nodes, nil
	}
	var now nets.NetworkAddressBlockList
	if err := r.direct.List(ctx, &now); err != nil {
		return nil, fmt.Errorf("list blocks: %w", err)
	}
	v.sort(now.Items)
	number, count := 0, blockCount(v.subnets)
	for _, node := range v.without() {
		for v.blocks[number] != nil || v.taken[number] != "" || v.barren[number] {
			number++
		}
		if number >= count {
			lacking = append(lacking, node)
			continue
		}
		b := &nets.NetworkAddressBlock{
			ObjectMeta: metav1.ObjectMeta{
				Name: v.pool.Name + "." + strconv.Itoa(number), Labels: map[string]string{nets.NodeLabel: nets.NodeLabelValue(node)},
				Finalizers: []string{nets.BlockFinalizer},
			},
			Spec: nets.NetworkAddressBlockSpec{Pool: v.pool.Name, Node: node, Ranges: rangesOf(v.subnets, number)},
		}
		switch err := r.client.Create(ctx, b); {
		case apierrors.IsAlreadyExists(err):
			// Another operator was quicker: the event of that block has another look made.
			return lacking, fmt.Errorf("block %s is there already", b.Name)
		case err != nil:
			return lacking, fmt.Errorf("make block %s for node %s: %w", b.Name, node, err)
		}
		v.blocks[number] = b
	}
	return lacking, nil
}

// without are the nodes that are to have a block and have none.
func (v *view) without() []string {
	have := map[string]bool{}
	for _, b := range v.blocks {
		if b.DeletionTimestamp == nil {
			have[b.Spec.Node] = true
		}
	}
	var nodes []string
	for node := range v.wanted {
		if !have[node] {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// free is how many more blocks there is room for.
func (v *view) free() int {
	if v.wrong != "" {
		return 0
	}
	count, none := blockCount(v.subnets), maps.Clone(v.barren)
	for number := range v.blocks {
		none[number] = true
	}
	for number := range v.taken {
		none[number] = true
	}
	maps.DeleteFunc(none, func(number int, _ bool) bool { return number >= count })
	return count - len(none)
}
