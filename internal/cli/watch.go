// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"plumbline.dev/plumbline/internal/topoview/published"
)

// gather is how long follow waits for what comes with a change: a claim's
// allocation and its reservation are two.
const gather = 200 * time.Millisecond

// follow sends what observe finds, and what has become of it after each change,
// until ctx ends. Claims that may not be listed are not watched either.
func follow(ctx context.Context, client kubernetes.Interface, node string) (<-chan published.Cluster, error) {
	first, err := observe(ctx, client, node)
	if err != nil {
		return nil, err
	}
	changed := make(chan struct{}, 1)
	publishedStore, publishedInformer := informer(client, &resourceapi.ResourceSlice{}, changed, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = sliceSelector(node)
			return client.ResourceV1().ResourceSlices().List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = sliceSelector(node)
			return client.ResourceV1().ResourceSlices().Watch(ctx, o)
		},
	})
	claimStore, claimInformer := informer(client, &resourceapi.ResourceClaim{}, changed, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.ResourceV1().ResourceClaims(metav1.NamespaceAll).Watch(ctx, o)
		},
	})
	go publishedInformer.RunWithContext(ctx)
	synced := []cache.InformerSynced{publishedInformer.HasSynced}
	if first.Unknown == "" {
		go claimInformer.RunWithContext(ctx)
		synced = append(synced, claimInformer.HasSynced)
	}
	out := make(chan published.Cluster)
	go func() {
		defer close(out)
		now := first
		for {
			select {
			case out <- now:
			case <-ctx.Done():
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			time.Sleep(gather)
			if !cache.WaitForCacheSync(ctx.Done(), synced...) {
				return
			}
			now = published.Cluster{Unknown: first.Unknown, Claims: listed[resourceapi.ResourceClaim](claimStore)}
			now.Slices = published.Current(listed[resourceapi.ResourceSlice](publishedStore))
		}
	}()
	return out, nil
}

func informer(client kubernetes.Interface, object runtime.Object, changed chan<- struct{}, lw *cache.ListWatch) (cache.Store, cache.Controller) {
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // one is waiting already
		}
	}
	return cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(lw, client), ObjectType: object,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { signal() },
			UpdateFunc: func(any, any) { signal() },
			DeleteFunc: func(any) { signal() },
		},
	})
}

// listed copies what a store has.
func listed[T any](store cache.Store) []T {
	var all []T
	for _, item := range store.List() {
		if object, ok := item.(*T); ok {
			all = append(all, *object)
		}
	}
	return all
}
