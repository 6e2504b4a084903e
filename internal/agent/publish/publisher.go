// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// A driver's slices are written at once, up to burst times; a write more is allowed
// every defaultWriteInterval. So the first change is seen at once, also right after the agent's
// start, and a link that flaps all day writes every few seconds and not with each flap.
const (
	defaultWriteInterval = 5 * time.Second
	burst                = 2
)

// Helper writes slices; kubeletplugin.Helper does.
type Helper interface {
	PublishResources(ctx context.Context, resources resourceslice.DriverResources) error
	Stop()
}

// Counter counts what was published.
type Counter interface {
	Published(driver string, devices, unhealthy int)
}

// Publisher writes a driver's slices when they change.
type Publisher struct {
	Driver string
	Pool   string
	// CPUs says how CPUs are offered.
	CPUs   slicecodec.CPUOptions
	Helper Helper
	// Effect is that of the taints of faulty devices; empty: NoSchedule.
	Effect resourceapi.DeviceTaintEffect
	// Counter may be nil.
	Counter Counter
	// Withdrawn has the driver offer nothing: its slices are deleted.
	Withdrawn bool

	writeInterval time.Duration // defaultWriteInterval when zero
	limiter       *rate.Limiter // nil before the first time
	wrote         bool
	last          []resourceapi.Device
	omitted       []string
}

// publish writes if there is something new, and returns how long that has to
// wait otherwise; 0 when nothing is new.
func (p *Publisher) publish(ctx context.Context, m *model.Machine, faults map[string][]model.Fault) (time.Duration, error) {
	if p.Withdrawn {
		return p.withdraw(ctx)
	}
	devices, omitted := slicecodec.Explain(m, p.Driver, p.CPUs)
	devices = slicecodec.Taint(devices, faults, p.effect())
	if p.wrote && apiequality.Semantic.DeepEqual(devices, p.last) {
		return 0, nil
	}
	if wait := p.take(); wait > 0 {
		return wait, nil
	}
	logger := klog.FromContext(ctx)
	if !slices.Equal(omitted, p.omitted) {
		for _, o := range omitted {
			logger.Info("not published", "driver", p.Driver, "what", o)
		}
		p.omitted = omitted
	}
	var pool resourceslice.Pool
	for _, part := range slicecodec.Split(devices) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: part})
	}
	for _, sets := range slicecodec.SharedCounters(devices) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{SharedCounters: sets})
	}
	err := p.Helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{p.Pool: pool}})
	if err != nil {
		return p.interval(), fmt.Errorf("publish %s: %w", p.Driver, err)
	}
	unhealthy := tainted(devices)
	logger.Info("publishing devices", "driver", p.Driver, "devices", len(devices), "unhealthy", unhealthy)
	if p.Counter != nil {
		p.Counter.Published(p.Driver, len(devices), unhealthy)
	}
	p.last, p.wrote = devices, true
	return 0, nil
}

// withdraw deletes the driver's slices. A pool of no device would still be a slice.
func (p *Publisher) withdraw(ctx context.Context) (time.Duration, error) {
	if p.wrote {
		return 0, nil
	}
	if err := p.Helper.PublishResources(ctx, resourceslice.DriverResources{}); err != nil {
		return p.interval(), fmt.Errorf("withdraw %s: %w", p.Driver, err)
	}
	klog.FromContext(ctx).Info("devices are not offered any more", "driver", p.Driver)
	if p.Counter != nil {
		p.Counter.Published(p.Driver, 0, 0)
	}
	p.wrote = true
	return 0, nil
}

// take allows a write, or says how long until one is allowed.
func (p *Publisher) take() time.Duration {
	if p.limiter == nil {
		p.limiter = rate.NewLimiter(rate.Every(p.interval()), burst)
	}
	reserved := p.limiter.Reserve()
	wait := reserved.Delay()
	if wait > 0 {
		reserved.Cancel() // what is written then is what is true then
	}
	return wait
}

func (p *Publisher) interval() time.Duration { return cmp.Or(p.writeInterval, defaultWriteInterval) }

func (p *Publisher) effect() resourceapi.DeviceTaintEffect {
	return cmp.Or(p.Effect, resourceapi.DeviceTaintEffectNoSchedule)
}

func tainted(devices []resourceapi.Device) int {
	n := 0
	for _, d := range devices {
		if len(d.Taints) > 0 {
			n++
		}
	}
	return n
}

// All offers a machine by all drivers at once: each waits a second for its
// cache the first time. Faults are by device name. It returns in how long to
// call it again for what had to wait; 0 when nothing had.
func All(ctx context.Context, publishers []*Publisher, m *model.Machine, faults map[string][]model.Fault) time.Duration {
	waits := make([]time.Duration, len(publishers))
	var group sync.WaitGroup
	for i, p := range publishers {
		group.Go(func() {
			wait, err := p.publish(ctx, m, faults)
			if err != nil {
				klog.FromContext(ctx).Error(err, "devices not published")
			}
			waits[i] = wait
		})
	}
	group.Wait()
	waits = slices.DeleteFunc(waits, func(d time.Duration) bool { return d == 0 })
	if len(waits) == 0 {
		return 0
	}
	return slices.Min(waits)
}
