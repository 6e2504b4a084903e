// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"plumbline.dev/plumbline/internal/model"
)

func TestHealthReport(t *testing.T) {
	now := time.Unix(1000, 0)
	h := &Health{
		Devices: func() []string { return []string{"a", "b"} },
		Faults: func() map[string][]model.Fault {
			return map[string][]model.Fault{
				"b": {{Kind: model.FaultCarrier, Message: "no carrier"}, {Kind: model.FaultSpeed, Message: "runs at 1 Mbit/s"}},
				"c": {{Kind: model.FaultGone}}, // no longer watched
			}
		},
	}
	want := kubeletplugin.DeviceHealthReport{Devices: []kubeletplugin.DeviceHealth{
		{PoolName: "node-1", DeviceName: "a", Health: "Healthy", LastUpdated: now, HealthCheckTimeout: validFor},
		{
			PoolName: "node-1", DeviceName: "b", Health: "Unhealthy", LastUpdated: now, HealthCheckTimeout: validFor,
			Message: "CarrierLost: no carrier; LinkSpeedDegraded: runs at 1 Mbit/s",
		},
	}}
	if diff := cmp.Diff(want, h.report("node-1", now)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if resendInterval*2 > validFor {
		t.Errorf("told every %s, believed for %s: one late report is taken for an unknown state", resendInterval, validFor)
	}
}

// TestHealthIsToldWhenItChanges: at once, again after a change, and no longer
// after the kubelet has left.
func TestHealthIsToldWhenItChanges(t *testing.T) {
	var mu sync.Mutex
	faults := map[string][]model.Fault{}
	changed := make(chan struct{}, 1)
	p := &plugin{pool: "node-1", health: &Health{
		Devices: func() []string { return []string{"a"} }, Changed: changed,
		Faults: func() map[string][]model.Fault {
			mu.Lock()
			defer mu.Unlock()
			return map[string][]model.Fault{"a": faults["a"]}
		},
	}}
	ctx, stop := context.WithCancel(t.Context())
	reports, ended := make(chan kubeletplugin.DeviceHealthReport), make(chan error)
	go func() { ended <- p.WatchHealthStatus(ctx, reports) }()
	if got := (<-reports).Devices[0].Health; got != kubeletplugin.HealthStatusHealthy {
		t.Errorf("first report: %s", got)
	}
	mu.Lock()
	faults["a"] = []model.Fault{{Kind: model.FaultCarrier, Message: "no carrier"}}
	mu.Unlock()
	changed <- struct{}{}
	if got := (<-reports).Devices[0].Health; got != kubeletplugin.HealthStatusUnhealthy {
		t.Errorf("after the change: %s", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("after the kubelet left: %v", err)
	}
}

func TestNoHealthToTell(t *testing.T) {
	p := &plugin{}
	if err := p.WatchHealthStatus(t.Context(), nil); !errors.Is(err, kubeletplugin.ErrHealthNotSupported) {
		t.Errorf("error %v, want the one that stops the kubelet from asking", err)
	}
}
