// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"fmt"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Publisher writes a driver's slices when they change.
type Publisher struct {
	Driver   string
	Pool     string
	Reserved cpuset.CPUSet
	Helper   *kubeletplugin.Helper

	last      []resourceapi.Device
	published bool
}

func (p *Publisher) publish(ctx context.Context, m *model.Machine) error {
	devices := slicecodec.Encode(m, p.Driver, p.Reserved)
	if p.published && apiequality.Semantic.DeepEqual(devices, p.last) {
		return nil
	}
	var pool resourceslice.Pool
	for _, part := range slicecodec.Split(devices) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: part})
	}
	err := p.Helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{p.Pool: pool}})
	if err != nil {
		return fmt.Errorf("publish %s: %w", p.Driver, err)
	}
	klog.FromContext(ctx).Info("publishing devices", "driver", p.Driver, "devices", len(devices))
	p.last, p.published = devices, true
	return nil
}

// All offers a machine by all drivers at once: each waits a second for its
// cache the first time.
func All(ctx context.Context, publishers []*Publisher, m *model.Machine) {
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
