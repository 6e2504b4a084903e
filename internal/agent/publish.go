// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// picture is the newest machine, NICs that pods hold included.
type picture struct {
	mu      sync.Mutex
	machine *model.Machine
	held    []model.NIC
}

// current is never nil after the first update.
func (p *picture) current() *model.Machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.machine
}

// update takes a new scan. NICs held until now stay as they were for one more
// picture: the scan may have looked while they were on their way back.
func (p *picture) update(scan *model.Machine, held []model.NIC) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	merged, err := inventory.Merge(scan, union(held, p.held))
	if err != nil {
		return fmt.Errorf("merge held NICs into the machine: %w", err)
	}
	p.machine, p.held = merged, held
	return nil
}

// union is a, and what of b is not in it.
func union(a, b []model.NIC) []model.NIC {
	all := slices.Clone(a)
	for _, n := range b {
		same := func(other model.NIC) bool { return slicecodec.NICName(other) == slicecodec.NICName(n) }
		if !slices.ContainsFunc(all, same) {
			all = append(all, n)
		}
	}
	return all
}

// publisher writes a driver's slices when they change.
type publisher struct {
	driver   string
	pool     string
	reserved cpuset.CPUSet
	helper   *kubeletplugin.Helper

	last      []resourceapi.Device
	published bool
}

func (p *publisher) publish(ctx context.Context, m *model.Machine) error {
	devices := slicecodec.Encode(m, p.driver, p.reserved)
	if p.published && apiequality.Semantic.DeepEqual(devices, p.last) {
		return nil
	}
	var pool resourceslice.Pool
	for _, part := range slicecodec.Split(devices) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: part})
	}
	err := p.helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{p.pool: pool}})
	if err != nil {
		return fmt.Errorf("publish %s: %w", p.driver, err)
	}
	klog.FromContext(ctx).Info("publishing devices", "driver", p.driver, "devices", len(devices))
	p.last, p.published = devices, true
	return nil
}

// heldNICs are the NICs of all records of this boot, as they were on the host:
// a reboot has brought the others back. One record that cannot be read must not
// keep the whole node's picture from changing.
func heldNICs(ctx context.Context, preparers []*preparer) ([]model.NIC, error) {
	var held []model.NIC
	var errs []error
	for _, p := range preparers {
		if p.heldNICs == nil {
			continue
		}
		records, _, err := p.journal.List(p.Name())
		errs = append(errs, err)
		for _, r := range records {
			if r.BootID != p.bootID {
				continue
			}
			nics, err := p.heldNICs(r)
			if err != nil {
				klog.FromContext(ctx).Error(err, "held NICs are not published", "driver", p.Name(), "claim", r.Claim.String())
				continue
			}
			held = append(held, nics...)
		}
	}
	return held, errors.Join(errs...)
}

// register offers every driver to the kubelet.
func (a *agent) register(ctx context.Context, stop context.CancelCauseFunc) ([]*publisher, error) {
	var publishers []*publisher
	for _, p := range a.preparers {
		offered := &plugin{preparer: p, pool: a.NodeName, fatal: func(err error) { stop(err) }}
		helper, err := offered.register(klog.NewContext(ctx, klog.FromContext(ctx).WithName(p.Name())), a.client, a.Options)
		if err != nil {
			return nil, err
		}
		publishers = append(publishers, &publisher{driver: p.Name(), pool: a.NodeName, reserved: a.ReservedCPUs, helper: helper})
	}
	return publishers, nil
}

// publish offers a machine by all drivers at once: each waits a second for its
// cache the first time.
func publish(ctx context.Context, publishers []*publisher, m *model.Machine) {
	var group sync.WaitGroup
	for _, p := range publishers {
		group.Go(func() {
			if err := p.publish(ctx, m); err != nil {
				klog.FromContext(ctx).Error(err, "devices not published")
			}
		})
	}
	group.Wait()
}
