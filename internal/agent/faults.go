// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/devicehealth"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// heldInPods has the health of NICs watched where they are.
type heldInPods struct {
	logger  klog.Logger
	watcher *devicehealth.Watcher
	nics    func(driver.Record) ([]model.NIC, error)
}

// Held implements runtimehooks.Observer.
func (h heldInPods) Held(r driver.Record, path string) {
	if r.Driver != slicecodec.DriverNet {
		return
	}
	if err := h.add(r, path); err != nil {
		h.logger.Error(err, "devices are not watched in their pod", "claim", r.Claim.String())
	}
}

func (h heldInPods) add(r driver.Record, path string) error {
	nics, err := h.nics(r)
	if err != nil {
		return fmt.Errorf("read the record: %w", err)
	}
	ns, err := netns.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = ns.Close() }() // nothing was written
	return h.watcher.Add(string(r.Claim.UID), ns.Fd(), nics)
}

// Dropped implements runtimehooks.Observer.
func (h heldInPods) Dropped(r driver.Record) {
	if r.Driver == slicecodec.DriverNet {
		h.watcher.Remove(string(r.Claim.UID))
	}
}

// reportFaults has claims say what is wrong with their devices, until ctx ends.
func reportFaults(ctx context.Context, w *devicehealth.Watcher, claims *status.Writer, machine func() *model.Machine) {
	changed := w.Subscribe()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		faults := w.Faults()
		for device, list := range faults {
			for _, f := range list {
				klog.FromContext(ctx).Info("device is faulty", "device", device, "fault", f.Kind, "since", f.Since, "what", f.Message)
			}
		}
		claims.SetFaults(slicecodec.DriverNet, faultsOfTwins(machine(), faults))
	}
}
