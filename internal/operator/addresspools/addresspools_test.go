// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addresspools

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	nets "plumbline.dev/plumbline/api/net/v1alpha1"
)

// cluster is an API server with a controller.
type cluster struct {
	client.Client
	now time.Time
	// failAfter counts down the writes until one fails; 0 never does.
	failAfter int
	created   int
}

var errKilled = errors.New("killed")

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkingv1.AddToScheme, resourceapi.AddToScheme, hosts.AddToScheme, nets.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)}
	write := func() error {
		if c.failAfter > 0 {
			if c.failAfter--; c.failAfter == 0 {
				return errKilled
			}
		}
		return nil
	}
	c.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&nets.NetworkAddressPool{}, &nets.NetworkAddressBlock{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := write(); err != nil {
					return err
				}
				// A fake API server sets no UIDs.
				c.created++
				o.SetUID(types.UID(fmt.Sprintf("uid-%d", c.created)))
				return w.Create(ctx, o, opts...)
			},
			Update: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if err := write(); err != nil {
					return err
				}
				return w.Update(ctx, o, opts...)
			},
			Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := write(); err != nil {
					return err
				}
				return w.Delete(ctx, o, opts...)
			},
		}).Build()
	return c
}

// settle looks until nothing changes any more.
func (c *cluster) settle(t *testing.T, pools ...string) {
	t.Helper()
	r := &reconciler{client: c.Client, direct: c.Client, now: func() time.Time { return c.now }}
	last := ""
	for range 50 {
		for _, pool := range pools {
			// An error has the controller look again.
			_, _ = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: pool}})
		}
		now := c.describe(t)
		if now == last {
			return
		}
		last = now
	}
	t.Fatalf("it does not settle: %s", last)
}

// describe is all blocks and pools.
func (c *cluster) describe(t *testing.T) string {
	t.Helper()
	var lines []string
	for _, b := range c.blocks(t) {
		going := ""
		if b.DeletionTimestamp != nil {
			going = " going"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s%s", b.Name, b.Spec.Node, strings.Join(b.Spec.Ranges, ","), going))
	}
	var pools nets.NetworkAddressPoolList
	if err := c.List(t.Context(), &pools); err != nil {
		t.Fatal(err)
	}
	for _, p := range pools.Items {
		lines = append(lines, fmt.Sprintf("%s %v %+v", p.Name, p.Finalizers, p.Status))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (c *cluster) blocks(t *testing.T) []nets.NetworkAddressBlock {
	t.Helper()
	var list nets.NetworkAddressBlockList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// byNode are the ranges of the blocks that stay, by node.
func (c *cluster) byNode(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, b := range c.blocks(t) {
		if b.DeletionTimestamp == nil {
			all[b.Spec.Node] = strings.Join(b.Spec.Ranges, ",")
		}
	}
	return all
}

// apart asserts that no address is in two blocks.
func (c *cluster) apart(t *testing.T) {
	t.Helper()
	var seen []netip.Prefix
	for _, b := range c.blocks(t) {
		for _, text := range b.Spec.Ranges {
			prefix := netip.MustParsePrefix(text)
			if slices.ContainsFunc(seen, prefix.Overlaps) {
				t.Errorf("%s is in two blocks:\n%s", prefix, c.describe(t))
			}
			seen = append(seen, prefix)
		}
	}
}

func (c *cluster) ready(t *testing.T, pool string) *metav1.Condition {
	t.Helper()
	p := &nets.NetworkAddressPool{}
	if err := c.Get(t.Context(), types.NamespacedName{Name: pool}, p); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(p.Status.Conditions, Ready)
}

// give answers for the agents of nodes: blocks that are being deleted are given back.
func (c *cluster) give(t *testing.T) {
	t.Helper()
	for _, b := range c.blocks(t) {
		if b.DeletionTimestamp != nil && !b.Status.GivenBack {
			b.Status.GivenBack = true
			if err := c.Status().Update(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func node(name string, labels map[string]string) []client.Object {
	return []client.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels}},
		&hosts.HostReport{ObjectMeta: metav1.ObjectMeta{Name: name}},
	}
}

func pool(name string, age int, subnets ...string) *nets.NetworkAddressPool {
	p := &nets.NetworkAddressPool{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, age, 0, 0, time.UTC)),
	}}
	for _, text := range subnets {
		s := nets.AddressSubnet{CIDR: text, BlockSize: 28}
		if strings.Contains(text, ":") {
			s.BlockSize = 80
		}
		p.Spec.Subnets = append(p.Spec.Subnets, s)
	}
	return p
}

func TestEveryNodeHasABlock(t *testing.T) {
	p := pool("fabric", 0, "192.168.111.0/24", "fd00::/64")
	p.Spec.NodeSelector = metav1.LabelSelector{MatchLabels: map[string]string{"pool": "h200"}}
	objects := slices.Concat([]client.Object{p}, node("a", map[string]string{"pool": "h200"}), node("b", map[string]string{"pool": "h200"}), node("c", nil))
	// A node without an agent.
	objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "d", Labels: map[string]string{"pool": "h200"}}})
	c := newCluster(t, objects...)
	c.settle(t, "fabric")
	got := c.byNode(t)
	if len(got) != 2 || got["a"] != "192.168.111.0/28,fd00::/80" || got["b"] != "192.168.111.16/28,fd00::1:0:0:0/80" {
		t.Fatalf("blocks %v", got)
	}
	if r := c.ready(t, "fabric"); r == nil || r.Status != metav1.ConditionTrue || r.Message != "2 nodes have a block" {
		t.Errorf("condition %+v", r)
	}
	// a leaves the selector; its block stays until it is given back, and is another's then.
	n := &corev1.Node{}
	if err := c.Get(t.Context(), types.NamespacedName{Name: "a"}, n); err != nil {
		t.Fatal(err)
	}
	n.Labels = nil
	if err := c.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	for _, o := range node("e", map[string]string{"pool": "h200"}) {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	c.settle(t, "fabric")
	if got := c.byNode(t); len(c.blocks(t)) != 3 || len(got) != 2 || !strings.HasPrefix(got["e"], "192.168.111.32/28") {
		t.Errorf("while a's is given back: %s", c.describe(t))
	}
	c.give(t)
	c.settle(t, "fabric")
	for _, o := range node("f", map[string]string{"pool": "h200"}) {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	c.settle(t, "fabric")
	if got := c.byNode(t); !strings.HasPrefix(got["f"], "192.168.111.0/28") {
		t.Errorf("after it was given back: %s", c.describe(t))
	}
}

func TestTooFewBlocks(t *testing.T) {
	p := pool("fabric", 0, "192.168.111.0/27") // two of 16
	c := newCluster(t, slices.Concat([]client.Object{p}, node("a", nil), node("b", nil), node("c", nil))...)
	c.settle(t, "fabric")
	r := c.ready(t, "fabric")
	if len(c.blocks(t)) != 2 || r == nil || r.Reason != "Exhausted" || !strings.HasPrefix(r.Message, "1 of 3 nodes have no block, for there are 2 in all: c;") {
		t.Errorf("%s\n%+v", c.describe(t), r)
	}
}

// A node has no block of which nobody could get an address.
func TestExcludedBlocks(t *testing.T) {
	p := pool("fabric", 0, "192.168.111.0/26") // four of 16
	p.Spec.Subnets[0].Exclude = []string{"192.168.111.0/28", "192.168.111.32/29", "192.168.111.40/29", "192.168.111.48/29"}
	c := newCluster(t, slices.Concat([]client.Object{p}, node("a", nil), node("b", nil), node("c", nil))...)
	c.settle(t, "fabric")
	if got := c.byNode(t); len(got) != 2 || got["a"] != "192.168.111.16/28" || got["b"] != "192.168.111.48/28" {
		t.Errorf("blocks %v", got)
	}
	if r := c.ready(t, "fabric"); r.Reason != "Exhausted" || !strings.HasPrefix(r.Message, "1 of 3 nodes have no block, for there are 2 in all: c;") {
		t.Errorf("condition %+v", r)
	}
}

// The younger of two pools that overlap has no blocks, and says why.
func TestOverlappingPools(t *testing.T) {
	c := newCluster(t, slices.Concat([]client.Object{pool("old", 0, "192.168.0.0/20"), pool("new", 1, "192.168.8.0/24")}, node("a", nil))...)
	c.settle(t, "new", "old")
	if got := c.blocks(t); len(got) != 1 || got[0].Spec.Pool != "old" {
		t.Errorf("blocks: %s", c.describe(t))
	}
	if r := c.ready(t, "new"); r == nil || r.Reason != "Invalid" || r.Message != "subnet 192.168.8.0/24 overlaps 192.168.0.0/20 of pool old: no more blocks are made" {
		t.Errorf("condition %+v", r)
	}
}

func TestPoolIsDeleted(t *testing.T) {
	c := newCluster(t, slices.Concat([]client.Object{pool("fabric", 0, "192.168.111.0/24")}, node("a", nil), node("b", nil))...)
	c.settle(t, "fabric")
	if err := c.Delete(t.Context(), pool("fabric", 0)); err != nil {
		t.Fatal(err)
	}
	c.settle(t, "fabric")
	if r := c.ready(t, "fabric"); r.Reason != "Deleting" || r.Message != "waits for the claims that have addresses: a, b" {
		t.Errorf("while claims have addresses: %+v", r)
	}
	c.give(t)
	c.settle(t, "fabric")
	if left := c.describe(t); left != "" {
		t.Errorf("left: %s", left)
	}
}

// Where a node is gone for good the claims decide, and where it has no agent any more. The pool
// says what it waits for.
func TestNodeIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		gone   []client.Object
		delete bool // the pool is deleted, too
	}{
		"the node is deleted":                      {gone: node("a", nil)},
		"its agent is gone":                        {gone: node("a", nil)[1:]},
		"its agent is gone, and the pool is going": {gone: node("a", nil)[1:], delete: true},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}}
			claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "dra.net", Pool: "a"}}}}
			c := newCluster(t, slices.Concat([]client.Object{pool("fabric", 0, "192.168.111.0/24"), claim}, node("a", nil))...)
			c.settle(t, "fabric")
			says := func(want string) {
				t.Helper()
				if !test.delete {
					return
				}
				if r := c.ready(t, "fabric"); r.Reason != "Deleting" || !strings.HasPrefix(r.Message, want) || !strings.HasSuffix(r.Message, "without an agent: a") {
					t.Errorf("condition %+v, want %s", r, want)
				}
			}
			for _, o := range test.gone {
				if err := c.Delete(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			if test.delete {
				if err := c.Delete(t.Context(), pool("fabric", 0)); err != nil {
					t.Fatal(err)
				}
			}
			c.settle(t, "fabric")
			// The fake API server sets the time of its own clock.
			c.now = time.Now().Add(nodeGoneFor - time.Minute)
			c.settle(t, "fabric")
			if len(c.blocks(t)) != 1 {
				t.Fatal("the block has gone before its time")
			}
			says("waits until 2")
			c.now = time.Now().Add(nodeGoneFor + time.Minute)
			c.settle(t, "fabric")
			if len(c.blocks(t)) != 1 {
				t.Fatal("the block has gone, and a claim is allocated on its node")
			}
			says("waits for claims that are allocated on nodes")
			if err := c.Delete(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			c.settle(t, "fabric")
			if len(c.blocks(t)) != 0 {
				t.Errorf("left: %s", c.describe(t))
			}
		})
	}
}

// A node whose agent is gone has its block back with the agent, where that was not free yet.
func TestAgentComesBack(t *testing.T) {
	report := node("a", nil)[1]
	c := newCluster(t, slices.Concat([]client.Object{pool("fabric", 0, "192.168.111.0/24")}, node("a", nil))...)
	c.settle(t, "fabric")
	if err := c.Delete(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	c.settle(t, "fabric")
	if err := c.Create(t.Context(), node("a", nil)[1]); err != nil {
		t.Fatal(err)
	}
	c.now = time.Now().Add(2 * nodeGoneFor)
	c.settle(t, "fabric")
	// It is the agent's again to give the old block back.
	if got := c.byNode(t); len(c.blocks(t)) != 2 || got["a"] != "192.168.111.16/28" {
		t.Errorf("blocks: %s", c.describe(t))
	}
}

// Pools of one second have an order by name, and the later in name may have had its blocks
// first: it keeps them, and the other carves beside them.
func TestOverlappingPoolsOfOneSecond(t *testing.T) {
	c := newCluster(t, slices.Concat([]client.Object{pool("z", 0, "192.168.0.0/26")}, node("n0", nil), node("n1", nil))...)
	c.settle(t, "z")
	if err := c.Create(t.Context(), pool("a", 0, "192.168.0.0/26")); err != nil {
		t.Fatal(err)
	}
	// What the operator has read of blocks is older than z's.
	stale := interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*nets.NetworkAddressBlockList); ok {
				return nil
			}
			return w.List(ctx, list, opts...)
		},
	})
	look := &reconciler{client: stale, direct: c.Client, now: func() time.Time { return c.now }}
	for range 3 {
		if _, err := look.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "a"}}); err != nil {
			t.Fatal(err)
		}
	}
	c.apart(t)
	for _, o := range node("n2", nil) {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	c.settle(t, "a", "z")
	c.apart(t)
	if got := len(c.blocks(t)); got != 4 {
		t.Errorf("%d blocks, want the two of z and the two that are left: %s", got, c.describe(t))
	}
	if r := c.ready(t, "z"); r.Reason != "Invalid" || r.Message != "subnet 192.168.0.0/26 overlaps 192.168.0.0/26 of pool a: no more blocks are made" {
		t.Errorf("z: %+v", r)
	}
	want := "1 of 3 nodes have no block, for there are 4 in all, and 2 of them have addresses of other pools' blocks (z.0, z.1): n2;"
	if r := c.ready(t, "a"); r.Reason != "Exhausted" || !strings.HasPrefix(r.Message, want) {
		t.Errorf("a: %+v, want %s", r, want)
	}
}

// Two operators that know nothing of each other's last block: one has it, and the other's node
// has none.
func TestRaceForTheLastBlock(t *testing.T) {
	c := newCluster(t, slices.Concat([]client.Object{pool("fabric", 0, "192.168.111.0/28")}, node("a", nil))...)
	request := ctrl.Request{NamespacedName: types.NamespacedName{Name: "fabric"}}
	first := &reconciler{client: c.Client, direct: c.Client, now: func() time.Time { return c.now }}
	if _, err := first.Reconcile(t.Context(), request); err != nil { // the finalizer
		t.Fatal(err)
	}
	// The second has read both before the first one writes.
	raced := false
	second := &reconciler{client: c.Client, now: first.now, direct: interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := w.List(ctx, list, opts...)
			if _, ok := list.(*nets.NetworkAddressBlockList); ok && !raced {
				raced = true
				if _, err := first.Reconcile(ctx, request); err != nil {
					t.Error(err)
				}
				for _, o := range node("b", nil) {
					if err := c.Create(ctx, o); err != nil {
						t.Error(err)
					}
				}
			}
			return err
		},
	})}
	if _, err := second.Reconcile(t.Context(), request); err == nil || err.Error() != "block fabric.0 is there already" {
		t.Errorf("the second: %v", err)
	}
	c.settle(t, "fabric")
	if got := c.byNode(t); len(got) != 1 || got["a"] != "192.168.111.0/28" {
		t.Errorf("blocks: %s", c.describe(t))
	}
	if r := c.ready(t, "fabric"); r.Reason != "Exhausted" || !strings.HasPrefix(r.Message, "1 of 2 nodes have no block, for there are 1 in all: b;") {
		t.Errorf("condition %+v", r)
	}
}

// A pool does not go while there is a block of it that the operator has not read yet.
func TestPoolWaitsForUnreadBlocks(t *testing.T) {
	c := newCluster(t, slices.Concat([]client.Object{pool("fabric", 0, "192.168.111.0/28")}, node("a", nil))...)
	c.settle(t, "fabric")
	if err := c.Delete(t.Context(), pool("fabric", 0)); err != nil {
		t.Fatal(err)
	}
	unread := interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*nets.NetworkAddressBlockList); ok {
				return nil
			}
			return w.List(ctx, list, opts...)
		},
	})
	look := &reconciler{client: unread, direct: c.Client, now: func() time.Time { return c.now }}
	if _, err := look.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "fabric"}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), types.NamespacedName{Name: "fabric"}, &nets.NetworkAddressPool{}); err != nil {
		t.Errorf("the pool: %v", err)
	}
}

// A pool has no addresses of the cluster's own networks. Blocks that nodes have stay.
func TestPoolInTheNetworksOfTheCluster(t *testing.T) {
	withNetworks := func(name string, internal string, pods ...string) client.Object {
		n := node(name, nil)[0].(*corev1.Node)
		n.Spec.PodCIDRs = pods
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: internal}}
		return n
	}
	services := func(cidrs ...string) client.Object {
		return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	}
	for name, test := range map[string]struct {
		comes   client.Object
		exclude []string
		want    string
	}{
		"Services":          {services("fd01::/108", "192.168.96.0/19"), nil, "subnet 192.168.111.0/24 overlaps 192.168.96.0/19 of ServiceCIDR kubernetes"},
		"pods":              {withNetworks("b", "10.0.0.2", "fd01:1::/64", "192.168.0.0/16"), nil, "subnet 192.168.111.0/24 overlaps 192.168.0.0/16, the podCIDR of node b"},
		"a node":            {withNetworks("b", "192.168.111.77"), nil, "subnet 192.168.111.0/24 has 192.168.111.77, the InternalIP of node b: want it in exclude"},
		"a node, excluded":  {withNetworks("b", "192.168.111.77"), []string{"192.168.111.77"}, ""},
		"another's network": {withNetworks("b", "192.168.112.7", "10.0.0.0/16"), nil, ""},
		"other Services":    {services("10.96.0.0/16"), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := pool("fabric", 0, "192.168.111.0/24")
			p.Spec.Subnets[0].Exclude = test.exclude
			c := newCluster(t, slices.Concat([]client.Object{p}, node("a", nil))...)
			c.settle(t, "fabric")
			if err := c.Create(t.Context(), test.comes); err != nil {
				t.Fatal(err)
			}
			c.settle(t, "fabric")
			r := c.ready(t, "fabric")
			if test.want == "" && r.Status != metav1.ConditionTrue || test.want != "" && (r.Reason != "Invalid" || r.Message != test.want+": no more blocks are made") {
				t.Errorf("condition %+v, want %q", r, test.want)
			}
			if got := c.byNode(t); got["a"] != "192.168.111.0/28" {
				t.Errorf("blocks: %s", c.describe(t))
			}
		})
	}
}

// What agents say of addresses that nobody gets any more is counted in the pool.
func TestInUseExcluded(t *testing.T) {
	c := newCluster(t, slices.Concat([]client.Object{pool("fabric", 0, "192.168.111.0/24", "fd00::/64")}, node("a", nil), node("b", nil))...)
	c.settle(t, "fabric")
	for _, b := range c.blocks(t) {
		b.Status.Used, b.Status.InUseExcluded = 5, 1
		if err := c.Status().Update(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	c.settle(t, "fabric")
	p := &nets.NetworkAddressPool{}
	if err := c.Get(t.Context(), types.NamespacedName{Name: "fabric"}, p); err != nil {
		t.Fatal(err)
	}
	if p.Status.Used != 10 || p.Status.InUseExcluded != 2 || p.Status.Subnets != "192.168.111.0/24,fd00::/64" {
		t.Errorf("status %+v", p.Status)
	}
	want := "2 nodes have a block; claims still have 2 addresses that nobody gets after them, for exclude has them or one is the gateway"
	if r := c.ready(t, "fabric"); r.Status != metav1.ConditionTrue || r.Message != want {
		t.Errorf("condition %+v, want %s", r, want)
	}
}

// Heartbeats of nodes and agents make nobody look.
func TestWhatIsLookedAtOfNodes(t *testing.T) {
	before := node("a", map[string]string{"k": "v"})[0].(*corev1.Node)
	for what, change := range map[string]func(*corev1.Node){
		"":                  func(n *corev1.Node) { n.ResourceVersion = "8" },
		"its labels":        func(n *corev1.Node) { n.Labels["k"] = "w" },
		"its pods' network": func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.0.0.0/24"} },
		"its addresses":     func(n *corev1.Node) { n.Status.Addresses = []corev1.NodeAddress{{Address: "10.0.0.2"}} },
	} {
		now := before.DeepCopy()
		change(now)
		if got := nodeDiffers(event.UpdateEvent{ObjectOld: before, ObjectNew: now}); got != (what != "") {
			t.Errorf("%q changes: looked at %t", what, got)
		}
	}
}

// Nodes and pools come and go in any order, and writes fail at any time: no address is in two
// blocks at any moment.
func TestNoAddressTwice(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	c := newCluster(t, slices.Concat([]client.Object{pool("fabric", 0, "192.168.111.0/26")}, node("n0", nil), node("n1", nil))...)
	look := &reconciler{client: c.Client, direct: c.Client, now: func() time.Time { return c.now }}
	for step := range 400 {
		name := fmt.Sprintf("n%d", r.IntN(7))
		switch r.IntN(6) {
		case 0, 1:
			for _, o := range node(name, nil) {
				_ = c.Create(t.Context(), o) // it may be there
			}
		case 2:
			_ = c.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
			c.now = time.Now().Add(time.Duration(r.IntN(60)) * time.Minute)
		case 3:
			c.give(t)
		}
		if r.IntN(3) == 0 {
			c.failAfter = 1 + r.IntN(4)
		}
		_, _ = look.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "fabric"}})
		c.failAfter = 0
		if c.apart(t); t.Failed() {
			t.Fatalf("at step %d", step)
		}
	}
}
