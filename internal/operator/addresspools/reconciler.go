// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addresspools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/internal/addresspool"
)

// nodeGoneFor is how long a node must have been away before claims alone decide about its
// block: one that is made again under its name is the same machine, with the same pods.
const nodeGoneFor = 10 * time.Minute

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	c := m.GetClient()
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return everyPool(ctx, c) })
	return ctrl.NewControllerManagedBy(m).Named("addresspools").
		For(&nets.NetworkAddressPool{}).
		Watches(&nets.NetworkAddressBlock{}, handler.EnqueueRequestsFromMapFunc(poolOf)).
		Watches(&hosts.HostReport{}, all).
		Watches(&corev1.Node{}, all).
		// Numbers are taken one pool after another: two of one pool would be in each
		// other's way.
		Complete(&reconciler{client: c, claims: m.GetAPIReader(), now: time.Now})
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
	// claims reads claims, which no other controller here keeps and which are asked for
	// when a node has gone alone.
	claims client.Reader
	now    func() time.Time
}

// view is what a look at a pool goes by.
type view struct {
	pool    *nets.NetworkAddressPool
	subnets []addresspool.Subnet
	// blocks are the pool's, by number; wanted are the nodes that are to have one, and
	// nodes all there are.
	blocks map[int]*nets.NetworkAddressBlock
	wanted map[string]bool
	nodes  map[string]bool
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
	lacking, err := r.carve(ctx, v)
	if err != nil {
		return ctrl.Result{}, err
	}
	if pool.DeletionTimestamp != nil && len(v.blocks) == 0 {
		controllerutil.RemoveFinalizer(pool, nets.BlockFinalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.client.Update(ctx, pool))
	}
	return ctrl.Result{RequeueAfter: again}, r.tell(ctx, v, lacking)
}

// look reads what there is.
func (r *reconciler) look(ctx context.Context, pool *nets.NetworkAddressPool) (view, error) {
	v := view{pool: pool, blocks: map[int]*nets.NetworkAddressBlock{}, wanted: map[string]bool{}, nodes: map[string]bool{}}
	var pools nets.NetworkAddressPoolList
	var blocks nets.NetworkAddressBlockList
	var nodes corev1.NodeList
	var reports hosts.HostReportList
	for _, list := range []client.ObjectList{&pools, &blocks, &nodes, &reports} {
		if err := r.client.List(ctx, list); err != nil {
			return v, err
		}
	}
	for i := range blocks.Items {
		b := &blocks.Items[i]
		if number, ok := numberOf(b.Name, pool.Name); ok && b.Spec.Pool == pool.Name {
			v.blocks[number] = b
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(&pool.Spec.NodeSelector)
	if err == nil {
		v.subnets, err = subnetsOf(pool)
	}
	if err != nil {
		v.wrong = err.Error()
	} else {
		v.wrong = overlap(pool, pools.Items)
	}
	served := map[string]bool{}
	for _, report := range reports.Items {
		served[report.Name] = true
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		v.nodes[n.Name] = true
		if v.wrong == "" && pool.DeletionTimestamp == nil && served[n.Name] && selector.Matches(labelsOf(n)) {
			v.wanted[n.Name] = true
		}
	}
	return v, nil
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
		if !free && !v.nodes[b.Spec.Node] {
			wait := b.DeletionTimestamp.Add(nodeGoneFor).Sub(r.now())
			if wait > 0 {
				again = cmp.Or(again, wait)
				again = min(again, wait)
				continue
			}
			if free, err = r.unclaimed(ctx, b.Spec.Node); err != nil {
				return 0, err
			}
			if !free {
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

// unclaimed says whether no claim is allocated on a node that has gone.
func (r *reconciler) unclaimed(ctx context.Context, node string) (bool, error) {
	var claims resourceapi.ResourceClaimList
	if err := r.claims.List(ctx, &claims); err != nil {
		return false, err
	}
	return !slices.ContainsFunc(claims.Items, func(c resourceapi.ResourceClaim) bool {
		return c.Status.Allocation != nil && slices.ContainsFunc(c.Status.Allocation.Devices.Results, func(d resourceapi.DeviceRequestAllocationResult) bool {
			return d.Pool == node
		})
	}), nil
}

// carve makes the blocks that are lacking, of the least free numbers, and returns the nodes
// for which there is none.
func (r *reconciler) carve(ctx context.Context, v view) (lacking []string, err error) {
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
	number, count := 0, blockCount(v.subnets)
	for _, node := range nodes {
		for v.blocks[number] != nil {
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
			// What was read is old: the event of that block has another look made.
			v.blocks[number] = &nets.NetworkAddressBlock{}
			return lacking, fmt.Errorf("block %s is there already", b.Name)
		case err != nil:
			return lacking, fmt.Errorf("make block %s for node %s: %w", b.Name, node, err)
		}
		v.blocks[number] = b
	}
	return lacking, nil
}
