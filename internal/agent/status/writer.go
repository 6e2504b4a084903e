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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

const (
	conditionReady        = "Ready"
	conditionNetworkReady = "NetworkReady"
	conditionRDMAReady    = "RDMALinkReady"
	// maxMessage is the API's limit of a condition's message.
	maxMessage = 32768
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
	since   time.Time
}

// Writer writes status.devices of claims. Nobody waits for it, and it
// tries until the API server has taken it.
type Writer struct {
	client kubernetes.Interface
	events *Events
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
}

func NewWriter(client kubernetes.Interface, events *Events) *Writer {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[claimKey](50*time.Millisecond, 30*time.Second)
	return &Writer{
		client:  client,
		events:  events,
		queue:   workqueue.NewTypedRateLimitingQueue(limiter),
		desired: map[claimKey]wanted{},
		told:    map[claimKey][]DeviceState{},
		reports: map[claimKey]Report{},
		faults:  map[string]map[string][]model.Fault{},
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
	w.events.report(r, told)
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
		} else {
			w.queue.Forget(key)
		}
		w.queue.Done(key)
	}
}

func (w *Writer) write(ctx context.Context, key claimKey) error {
	w.mu.Lock()
	want, ok := w.desired[key]
	w.mu.Unlock()
	if !ok {
		return nil
	}
	// The field manager owns exactly the entries applied last, so applying none
	// removes them. The UID keeps a later claim of the same name untouched.
	apply := resourceapply.ResourceClaim(want.claim.Name, want.claim.Namespace).
		WithUID(want.claim.UID).
		WithStatus(resourceapply.ResourceClaimStatus().WithDevices(deviceEntries(key.driver, want)...))
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := w.client.ResourceV1().ResourceClaims(want.claim.Namespace).ApplyStatus(ctx, apply,
		metav1.ApplyOptions{FieldManager: "plumbline-agent/" + key.driver, Force: true})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // the claim is gone, or another one bears its name
	case apierrors.IsInvalid(err): // no longer allocated: there is nothing to describe
		klog.FromContext(ctx).Info("claim status not accepted", "driver", key.driver, "claim", want.claim.String(), "reason", err.Error())
	case err != nil:
		return err
	}
	w.forget(key, want)
	return nil
}

// forget drops what was written, unless it has changed meanwhile.
func (w *Writer) forget(key claimKey, written wanted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.desired[key].since.Equal(written.since) {
		delete(w.desired, key)
	}
}

func deviceEntries(driverName string, want wanted) []*resourceapply.AllocatedDeviceStatusApplyConfiguration {
	var entries []*resourceapply.AllocatedDeviceStatusApplyConfiguration
	for _, d := range want.devices {
		entry := resourceapply.AllocatedDeviceStatus().WithDriver(driverName).WithPool(d.Pool).WithDevice(d.Device).
			WithConditions(condition(conditionReady, d, want.since))
		if d.ShareID != "" {
			entry.WithShareID(d.ShareID)
		}
		if driverName == slicecodec.DriverNet {
			entry.WithConditions(condition(conditionNetworkReady, d, want.since))
		}
		if d.RDMA {
			entry.WithConditions(condition(conditionRDMAReady, d, want.since))
		}
		if faults := want.faults[d.Device]; len(faults) > 0 {
			entry.WithConditions(unhealthy(faults))
		}
		if d.Network != nil {
			entry.WithNetworkData(networkData(*d.Network))
		}
		entries = append(entries, entry)
	}
	return entries
}

// networkData leaves out what the device does not have.
func networkData(d driver.DeviceStatus) *resourceapply.NetworkDeviceDataApplyConfiguration {
	data := resourceapply.NetworkDeviceData().WithIPs(d.IPs...)
	if d.InterfaceName != "" {
		data.WithInterfaceName(d.InterfaceName)
	}
	if d.HardwareAddress != "" {
		data.WithHardwareAddress(d.HardwareAddress)
	}
	return data
}

func condition(kind string, d DeviceState, since time.Time) *metaapply.ConditionApplyConfiguration {
	status := metav1.ConditionTrue
	if d.Err != nil {
		status = metav1.ConditionFalse
	}
	return metaapply.Condition().WithType(kind).WithStatus(status).WithReason(d.Reason).
		WithMessage(message(d)).WithLastTransitionTime(metav1.NewTime(since))
}

// message is what a condition and an event say.
func message(d DeviceState) string {
	text := d.Note
	if d.Err != nil {
		text = d.Err.Error()
	}
	return text[:min(len(text), maxMessage)]
}
