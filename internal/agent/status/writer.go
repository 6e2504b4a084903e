// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	host    map[string]hostAnswer
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
	// host is what the host's checks say of each driver's devices by name.
	host map[string]map[string]hostAnswer
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
		host:      map[string]map[string]hostAnswer{},
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
	if !ok { // its pods have not heard what was known before they came
		w.tellHost(r, nil)
	}
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

// writeAtMost bounds the requests of one try.
const writeAtMost = 10 * time.Second

func (w *Writer) write(ctx context.Context, key claimKey) error {
	w.mu.Lock()
	want, ok := w.desired[key]
	w.mu.Unlock()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeAtMost)
	defer cancel()
	claim, err := w.client.ResourceV1().ResourceClaims(want.claim.Namespace).Get(ctx, want.claim.Name, metav1.GetOptions{})
	if err == nil && claim.UID == want.claim.UID && claim.Status.Allocation != nil {
		err = w.replace(ctx, claim, key.driver, want)
	}
	switch {
	case apierrors.IsNotFound(err): // the claim is gone
	case apierrors.IsInvalid(err): // allocated anew: there is nothing to describe
		klog.FromContext(ctx).Info("claim status not accepted", "driver", key.driver, "claim", want.claim.String(), "reason", err.Error())
	case err != nil:
		return err
	}
	w.forget(key, want)
	return nil
}

// replace puts the driver's entries in the place of those that are there. The
// entries of other drivers, the allocation and whom it is reserved for go back as
// they came: an agent may not change them, and the API server compares bytes.
//
// A merge patch leaves everything else alone. Only where a claim's opaque
// parameters were written with white space does the patched claim differ from
// the stored one, and then it takes an update. Server-side apply would sort the
// parameters' fields, so that hardly any claim made by a program could be
// described (pkg/registry/resource/resourceclaim, AuthorizedForBinding).
func (w *Writer) replace(ctx context.Context, claim *resourceapi.ResourceClaim, driverName string, want wanted) error {
	devices := entries(claim.Status.Devices, driverName, want)
	if apiequality.Semantic.DeepEqual(devices, claim.Status.Devices) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": claim.UID, "resourceVersion": claim.ResourceVersion},
		"status":   map[string]any{"devices": devices},
	})
	if err != nil {
		return fmt.Errorf("write the status of claim %s: %w", want.claim, err)
	}
	client := w.client.ResourceV1().ResourceClaims(claim.Namespace)
	_, err = client.Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsInvalid(err) {
		changed := claim.DeepCopy()
		changed.Status.Devices = devices
		_, err = client.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	}
	return err
}

// entries are what a claim's status says of devices, with the driver's part
// replaced; nil for none.
func entries(now []resourceapi.AllocatedDeviceStatus, driverName string, want wanted) []resourceapi.AllocatedDeviceStatus {
	var all []resourceapi.AllocatedDeviceStatus
	for _, e := range now {
		if e.Driver != driverName {
			all = append(all, e)
		}
	}
	for _, d := range want.devices {
		entry := entryOf(driverName, d, want)
		if i := slices.IndexFunc(now, func(e resourceapi.AllocatedDeviceStatus) bool { return sameDevice(e, entry) }); i >= 0 {
			keepTransitions(entry.Conditions, now[i].Conditions)
		}
		all = append(all, entry)
	}
	return all
}

func sameDevice(a, b resourceapi.AllocatedDeviceStatus) bool {
	return a.Driver == b.Driver && a.Pool == b.Pool && a.Device == b.Device && apiequality.Semantic.DeepEqual(a.ShareID, b.ShareID)
}
