// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

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
