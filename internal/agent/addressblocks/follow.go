// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package addressblocks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	nets "plumbline.dev/plumbline/api/net/v1alpha1"
)

const (
	poolsResource  = "networkaddresspools"
	blocksResource = "networkaddressblocks"
)

// tellEvery is how often the use of a block is told at most, and lookAgain how soon a look is
// repeated that failed, or found claims with addresses of a block that is to be given back.
const (
	tellEvery = 10 * time.Second
	lookAgain = 5 * time.Second
)

// Options are what a keeper follows.
type Options struct {
	// Client reads and writes the objects of api/net.
	Client rest.Interface
	// Lock is the allocation lock of the driver that gives addresses out.
	Lock func(context.Context) (unlock func(), err error)
	// InUse are the addresses that claims of this node have.
	InUse func() ([]netip.Addr, error)
	// Changed has a value when InUse has others.
	Changed <-chan struct{}
}

// Run follows the cluster until ctx ends.
func (k *Keeper) Run(ctx context.Context, o Options) {
	var following sync.WaitGroup
	following.Go(func() { k.followPools(ctx, o.Client) })
	following.Go(func() { k.followBlocks(ctx, o.Client) })
	defer following.Wait()
	for {
		again := time.Hour
		if open, err := k.look(ctx, o); err != nil {
			klog.FromContext(ctx).Info("not told which addresses are in use; comes again", "reason", err.Error())
			again = lookAgain
		} else if open {
			again = lookAgain
		}
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-k.wake:
		case <-o.Changed:
			if !pause(ctx, tellEvery) { // others change in the same moment
				return
			}
		case <-timer.C:
		}
		timer.Stop()
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (k *Keeper) followPools(ctx context.Context, client rest.Interface) {
	follow(ctx, client, poolsResource, labels.Everything(), &nets.NetworkAddressPool{}, func(all []any) {
		pools := map[string]nets.NetworkAddressPoolSpec{}
		for _, one := range all {
			if p, ok := one.(*nets.NetworkAddressPool); ok {
				pools[p.Name] = p.Spec
			}
		}
		k.take(ctx, func(now *known) { now.Pools, now.poolsTold = pools, true })
	})
}

func (k *Keeper) followBlocks(ctx context.Context, client rest.Interface) {
	own := labels.SelectorFromSet(labels.Set{nets.NodeLabel: nets.NodeLabelValue(k.node)})
	follow(ctx, client, blocksResource, own, &nets.NetworkAddressBlock{}, func(all []any) {
		var blocks []block
		for _, one := range all {
			b, ok := one.(*nets.NetworkAddressBlock)
			if !ok || b.Spec.Node != k.node { // a long name's digest is another's label too
				continue
			}
			blocks = append(blocks, block{
				Name: b.Name, UID: b.UID, Pool: b.Spec.Pool, Ranges: b.Spec.Ranges, Deleting: b.DeletionTimestamp != nil,
				status: b.Status,
			})
		}
		k.take(ctx, func(now *known) { now.Blocks, now.blocksTold = blocks, true })
	})
}

func (k *Keeper) take(ctx context.Context, change func(*known)) {
	if err := k.know(change); err != nil {
		klog.FromContext(ctx).Error(err, "an agent that starts while the API server is away will not know them")
	}
}

func follow(ctx context.Context, client rest.Interface, resource string, which labels.Selector, kind any, changed func([]any)) {
	source := cache.NewFilteredListWatchFromClient(client, resource, metav1.NamespaceAll, func(o *metav1.ListOptions) { o.LabelSelector = which.String() })
	store := cache.NewUndeltaStore(changed, cache.MetaNamespaceKeyFunc)
	cache.NewReflectorWithOptions(source, kind, store, cache.ReflectorOptions{Name: resource}).RunWithContext(ctx)
}

// look gives back the blocks that are deleted and that no claim has an address of, and tells
// how much of the others is in use. open says that one is still in use which is to be given
// back.
func (k *Keeper) look(ctx context.Context, o Options) (open bool, err error) {
	blocks := k.blocks()
	if len(blocks) == 0 {
		return false, nil
	}
	used, closed, err := k.count(ctx, o, blocks)
	if err != nil {
		return false, err
	}
	for _, b := range blocks {
		status := used[b.Name]
		status.GivenBack = b.Deleting && closed[b.Name] == b.UID && status.Used == 0
		open = open || b.Deleting && !status.GivenBack
		if status == b.status {
			continue
		}
		if err := tell(ctx, o.Client, b, status); err != nil {
			return false, err
		}
	}
	return open, nil
}

// count closes the blocks that are deleted, and counts the addresses in use, both under the
// allocation lock: no claim is given an address of a closed block after it was counted.
func (k *Keeper) count(ctx context.Context, o Options, blocks []block) (used map[string]nets.NetworkAddressBlockStatus, closed map[string]types.UID, err error) {
	unlock, err := o.Lock(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	if closed, err = k.close(blocks); err != nil {
		return nil, nil, err
	}
	addresses, err := o.InUse()
	if err != nil {
		return nil, nil, err
	}
	used = map[string]nets.NetworkAddressBlockStatus{}
	for _, b := range blocks {
		usable, status := k.usable(b), nets.NetworkAddressBlockStatus{}
		for _, text := range b.Ranges {
			part, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, nil, fmt.Errorf("block %s: spec.ranges: %w", b.Name, err)
			}
			for _, a := range addresses {
				if !part.Contains(a) {
					continue
				}
				status.Used++
				if !usable(a) {
					status.InUseExcluded++
				}
			}
		}
		used[b.Name] = status
	}
	return used, closed, nil
}

// close notes on disk the blocks that are deleted, and forgets those that have gone, or have
// been made anew under their names.
func (k *Keeper) close(blocks []block) (map[string]types.UID, error) {
	before, err := k.closed()
	if err != nil {
		return nil, err
	}
	closed := map[string]types.UID{}
	for _, b := range blocks {
		if b.Deleting || before[b.Name] == b.UID {
			closed[b.Name] = b.UID
		}
	}
	if maps.Equal(before, closed) {
		return closed, nil
	}
	if err := write(filepath.Join(k.dir, closedFile), closed); err != nil {
		return nil, fmt.Errorf("keep which blocks of addresses are given back: %w", err)
	}
	return closed, nil
}

// tell writes the status of a very block: one of its name may be another by now.
func tell(ctx context.Context, client rest.Interface, b block, status nets.NetworkAddressBlockStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": b.UID},
		"status":   map[string]any{"used": status.Used, "inUseExcluded": status.InUseExcluded, "givenBack": status.GivenBack},
	})
	if err != nil {
		return err
	}
	err = client.Patch(types.MergePatchType).Resource(blocksResource).Name(b.Name).SubResource("status").Body(patch).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("write the status of block %s: %w", b.Name, err)
	}
	return nil
}
