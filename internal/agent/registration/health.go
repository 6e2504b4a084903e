// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"strings"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"plumbline.dev/plumbline/internal/model"
)

const (
	// resendInterval is how often health is sent although nothing changed, and
	// validFor how long the kubelet keeps a device's health without a further report.
	resendInterval = 10 * time.Second
	validFor       = 30 * time.Second
)

// Health is what is known of the health of a driver's devices.
type Health struct {
	// Devices are all that are watched, by name.
	Devices func() []string
	// Faults are those of the devices that have some.
	Faults func() map[string][]model.Fault
	// Changed has a value after faults came or went. The kubelet listens once; one
	// that takes a value from another is made up for by the next report.
	Changed <-chan struct{}
}

// WatchHealthStatus sends the kubelet the devices' health until ctx ends. The
// kubelet shows it in the status of pods (allocatedResourcesStatus).
func (p *plugin) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	if p.health == nil {
		return kubeletplugin.ErrHealthNotSupported
	}
	again := time.NewTicker(resendInterval)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case reports <- p.health.report(p.pool, time.Now()):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		case <-p.health.Changed:
		}
	}
}

// report is the health of all devices at a time.
func (h *Health) report(pool string, now time.Time) kubeletplugin.DeviceHealthReport {
	var report kubeletplugin.DeviceHealthReport
	faults := h.Faults()
	for _, name := range h.Devices() {
		d := kubeletplugin.DeviceHealth{
			PoolName: pool, DeviceName: name, Health: kubeletplugin.HealthStatusHealthy, LastUpdated: now, HealthCheckTimeout: validFor,
		}
		if len(faults[name]) > 0 {
			var sentences []string
			for _, f := range faults[name] {
				sentences = append(sentences, string(f.Kind)+": "+f.Message)
			}
			d.Health, d.Message = kubeletplugin.HealthStatusUnhealthy, strings.Join(sentences, "; ")
		}
		report.Devices = append(report.Devices, d)
	}
	return report
}
