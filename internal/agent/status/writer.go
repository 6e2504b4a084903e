// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/model"
)

// claimKey is one driver's part of one claim.
type claimKey struct {
	driver string
	uid    types.UID
}

type wanted struct {
	claim   driver.ClaimRef
	devices []DeviceState // empty: clear our entries
	faults  map[string][]model.Fault
	aligned *Alignment // nil: nothing is said
	since   time.Time
}

// Writer writes status.devices of claims. Nobody waits for it, and it
// tries until the API server has taken it.
type Writer struct {
	// Failed hears of writes that will be tried again; nil: nobody does.
	Failed func()

	client kubernetes.Interface
	events *kube.Events
	queue  workqueue.TypedRateLimitingInterface[claimKey]

	mu      sync.Mutex
	desired map[claimKey]wanted
	// told is what was last asked for, so that repairs which find everything in
	// place write nothing.
	told map[claimKey][]DeviceState
	// reports are the last ones of claims that hold devices, faults those of
	// each driver's devices by name.
	reports map[claimKey]Report
	faults  map[string]map[string][]model.Fault
	// alignment is what verification says of claims, ours and others'.
	alignment map[types.UID]Alignment
}

// NewWriter returns a writer that writes from Run on. events may be nil.
func NewWriter(client kubernetes.Interface, events *kube.Events) *Writer {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[claimKey](50*time.Millisecond, 30*time.Second)
	return &Writer{
		client:    client,
		events:    events,
		queue:     workqueue.NewTypedRateLimitingQueue(limiter),
		desired:   map[claimKey]wanted{},
		told:      map[claimKey][]DeviceState{},
		reports:   map[claimKey]Report{},
		faults:    map[string]map[string][]model.Fault{},
		alignment: map[types.UID]Alignment{},
	}
}

// Set replaces what the claim's status says about the driver's devices, and
// tells the claim's pods what is worth an event.
func (w *Writer) Set(r Report) {
	key := claimKey{driver: r.Driver, uid: r.Claim.UID}
	w.mu.Lock()
	defer w.mu.Unlock()
	told, ok := w.told[key]
	if ok && slices.EqualFunc(told, r.Devices, sameState) {
		return
	}
	reportEvents(w.events, r, told)
	w.told[key], w.reports[key] = r.Devices, r
	if len(r.Devices) == 0 {
		delete(w.told, key)
		delete(w.reports, key)
	}
	w.want(key, r)
}

func sameState(a, b DeviceState) bool {
	return a.Pool == b.Pool && a.Device == b.Device && a.ShareID == b.ShareID && a.Reason == b.Reason && a.Note == b.Note && a.RDMA == b.RDMA &&
		fmt.Sprint(a.Err) == fmt.Sprint(b.Err) && reflect.DeepEqual(a.Network, b.Network)
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, w.queue.ShutDown)()
	for {
		key, shutdown := w.queue.Get()
		if shutdown {
			return
		}
		if err := w.write(ctx, key); err != nil {
			klog.FromContext(ctx).V(2).Info("claim status not written, will retry", "driver", key.driver, "claimUID", key.uid, "reason", err.Error())
			w.queue.AddRateLimited(key)
			if w.Failed != nil {
				w.Failed()
			}
		} else {
			w.queue.Forget(key)
		}
		w.queue.Done(key)
	}
}

// forget drops what was written, unless it has changed meanwhile.
func (w *Writer) forget(key claimKey, written wanted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.desired[key].since.Equal(written.since) {
		delete(w.desired, key)
	}
}
