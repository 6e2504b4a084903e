// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/hostreport"
	"plumbline.dev/plumbline/internal/agent/publish"
	"plumbline.dev/plumbline/internal/agent/registration"
	"plumbline.dev/plumbline/internal/devicehealth"
	"plumbline.dev/plumbline/internal/driver/netdev"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/inventory/filter"
	"plumbline.dev/plumbline/internal/model"
)

// newPublishLoop connects what changes the published devices to the loop that
// writes them.
func (a *agent) newPublishLoop(ctx context.Context, scans <-chan inventory.Snapshot) (*publish.Loop, error) {
	offer, err := filter.New(a.Filter)
	if err != nil {
		return nil, fmt.Errorf("--filter: %w", err)
	}
	shares := &sharedNICs{offers: a.shares, held: a.heldShares, mode: func() (rdma.Mode, error) { return rdma.NamespaceMode(netns.Current) }}
	a.merged.Withhold = func(m *model.Machine, held []model.NIC) *model.Machine {
		return a.gate.Withhold(offer.Apply(shares.withhold(m, held), held), held)
	}
	a.offer = hostreport.NewOffer(a.HostTaints)
	byCloud := a.merged.Describe
	a.merged.Describe = func(m *model.Machine) *model.Machine { return a.offer.Describe(shares.describe(ctx, byCloud(m))) }
	watcher := devicehealth.New(devicehealth.Options{})
	context.AfterFunc(ctx, watcher.Close)
	a.runtime.Observe(heldInPods{logger: klog.FromContext(ctx), watcher: watcher, nics: netdev.HeldNICs})
	go reportFaults(ctx, watcher, a.status, a.merged.Current)
	a.nicHealth = &registration.Health{
		Devices: func() []string { return withTwins(a.merged.Current(), watcher.Devices()) },
		Faults:  func() map[string][]model.Fault { return faultsOfTwins(a.merged.Current(), watcher.Faults()) }, Changed: watcher.Subscribe(),
	}
	loop := &publish.Loop{
		MergedMachine: a.merged, Scans: scans, Held: a.heldNICs, HeldChanged: a.heldChanged,
		Described: a.clouds.cache.Changed(), HostChecked: a.offer.Changed(), Scanned: watcher.Scanned,
		Taken: func() {
			a.clouds.cache.Watch(a.merged.Current())
			a.runtime.Repin()
		},
	}
	if a.DeviceTaints != TaintNone {
		loop.Faults = func() map[string][]model.Fault { return a.offer.AddFaults(watcher.Faults()) }
		loop.FaultsChanged = watcher.Subscribe()
	}
	return loop, nil
}

// heldNICs are the NICs of all records.
func (a *agent) heldNICs(ctx context.Context) ([]model.NIC, error) {
	var held []model.NIC
	for _, p := range a.preparers {
		nics, err := p.Held(ctx)
		if err != nil {
			return nil, err
		}
		held = append(held, nics...)
	}
	return held, nil
}

// heldShares are what all records have of NICs that are shared.
func (a *agent) heldShares(ctx context.Context) ([]model.HeldShare, error) {
	var held []model.HeldShare
	for _, p := range a.preparers {
		shares, err := p.SharesHeld(ctx)
		if err != nil {
			return nil, err
		}
		held = append(held, shares...)
	}
	return held, nil
}

// heldOrShared are the NICs that claims hold whole, or have shares of.
func (a *agent) heldOrShared(ctx context.Context) ([]model.NIC, error) {
	nics, err := a.heldNICs(ctx)
	if err != nil {
		return nil, err
	}
	shares, err := a.heldShares(ctx)
	for _, s := range shares {
		nics = append(nics, s.NIC)
	}
	return nics, err
}

// claimsChanged is called after a record was written or removed.
func (a *agent) claimsChanged() {
	a.runtime.Repin()
	a.offerChanged()
	select {
	case a.addressesChanged <- struct{}{}:
	default: // one is pending, and covers this change too
	}
}

// offerChanged has devices published again.
func (a *agent) offerChanged() {
	select {
	case a.heldChanged <- struct{}{}:
	default: // one is pending, and covers this change too
	}
}

// claimWaits is called when a claim waits for what others hold.
func (a *agent) claimWaits() {
	select {
	case a.wanted <- struct{}{}:
	default: // one is pending, and covers this claim too
	}
}
