// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

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
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

const (
	conditionReady        = "Ready"
	conditionNetworkReady = "NetworkReady"
	// maxMessage is the API's limit of a condition's message.
	maxMessage = 32768
)

// deviceState is what the claim's status says about one device.
type deviceState struct {
	pool, device, shareID string
	// err is nil when the device is ready.
	err     error
	reason  string
	network *driver.DeviceStatus // nil for what is in no pod's namespace
}

// statusKey is one driver's part of one claim.
type statusKey struct {
	driver string
	uid    types.UID
}

type desiredStatus struct {
	claim   driver.ClaimRef
	devices []deviceState // empty: clear our entries
	since   time.Time
}

// statusWriter writes status.devices of claims. Nobody waits for it, and it
// tries until the API server has taken it.
type statusWriter struct {
	client kubernetes.Interface
	queue  workqueue.TypedRateLimitingInterface[statusKey]

	mu      sync.Mutex
	desired map[statusKey]desiredStatus
	// told is what was last asked for, so that repairs which find everything in
	// place write nothing.
	told map[statusKey][]deviceState
}

func newStatusWriter(client kubernetes.Interface) *statusWriter {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[statusKey](50*time.Millisecond, 30*time.Second)
	return &statusWriter{
		client:  client,
		queue:   workqueue.NewTypedRateLimitingQueue(limiter),
		desired: map[statusKey]desiredStatus{},
		told:    map[statusKey][]deviceState{},
	}
}

// set replaces what the claim's status says about the driver's devices.
func (w *statusWriter) set(driverName string, claim driver.ClaimRef, devices []deviceState) {
	key := statusKey{driver: driverName, uid: claim.UID}
	w.mu.Lock()
	defer w.mu.Unlock()
	if told, ok := w.told[key]; ok && slices.EqualFunc(told, devices, sameState) {
		return
	}
	w.told[key] = devices
	if len(devices) == 0 {
		delete(w.told, key)
	}
	w.desired[key] = desiredStatus{claim: claim, devices: devices, since: time.Now()}
	w.queue.Add(key)
}

func sameState(a, b deviceState) bool {
	return a.pool == b.pool && a.device == b.device && a.shareID == b.shareID && a.reason == b.reason &&
		fmt.Sprint(a.err) == fmt.Sprint(b.err) && reflect.DeepEqual(a.network, b.network)
}

// run writes until ctx ends.
func (w *statusWriter) run(ctx context.Context) {
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

func (w *statusWriter) write(ctx context.Context, key statusKey) error {
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
func (w *statusWriter) forget(key statusKey, written desiredStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.desired[key].since.Equal(written.since) {
		delete(w.desired, key)
	}
}

func deviceEntries(driverName string, want desiredStatus) []*resourceapply.AllocatedDeviceStatusApplyConfiguration {
	var entries []*resourceapply.AllocatedDeviceStatusApplyConfiguration
	for _, d := range want.devices {
		entry := resourceapply.AllocatedDeviceStatus().WithDriver(driverName).WithPool(d.pool).WithDevice(d.device).
			WithConditions(condition(conditionReady, d, want.since))
		if d.shareID != "" {
			entry.WithShareID(d.shareID)
		}
		if driverName == slicecodec.DriverNet {
			entry.WithConditions(condition(conditionNetworkReady, d, want.since))
		}
		if d.network != nil {
			entry.WithNetworkData(networkData(*d.network))
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

func condition(kind string, d deviceState, since time.Time) *metaapply.ConditionApplyConfiguration {
	status, message := metav1.ConditionTrue, ""
	if d.err != nil {
		status, message = metav1.ConditionFalse, d.err.Error()
	}
	return metaapply.Condition().WithType(kind).WithStatus(status).WithReason(d.reason).
		WithMessage(message[:min(len(message), maxMessage)]).WithLastTransitionTime(metav1.NewTime(since))
}

// states describes every device of a record alike.
func states(r driver.Record, reason string, err error) []deviceState {
	var all []deviceState
	for _, d := range r.Devices {
		all = append(all, deviceState{pool: d.Pool, device: d.Device, shareID: d.ShareID, reason: reason, err: err})
	}
	return all
}
