// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
)

// plugin is one driver as the kubelet sees it.
type plugin struct {
	*preparer
	pool string
	// fatal stops the agent: something that no retry mends.
	fatal func(error)
}

// register offers the driver to the kubelet. From then on claims come in.
func (p *plugin) register(ctx context.Context, client kubernetes.Interface, o Options) (*kubeletplugin.Helper, error) {
	for _, dir := range []string{o.pluginDir(p.Name()), o.registryDir()} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, fmt.Errorf("register %s: %w", p.Name(), err)
		}
	}
	helper, err := kubeletplugin.Start(ctx, p,
		kubeletplugin.DriverName(p.Name()),
		kubeletplugin.NodeName(o.NodeName),
		kubeletplugin.KubeClient(client),
		kubeletplugin.PluginDataDirectoryPath(o.pluginDir(p.Name())),
		kubeletplugin.RegistrarDirectoryPath(o.registryDir()),
		kubeletplugin.Serialize(false), // the journal's locks are per claim
		kubeletplugin.HealthService(false),
	)
	if err != nil {
		return nil, fmt.Errorf("register %s with the kubelet: %w", p.Name(), err)
	}
	return helper, nil
}

// PrepareResourceClaims answers every claim by itself: one that is refused
// does not hold up the others.
func (p *plugin) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, c := range claims {
		r, err := p.prepare(ctx, driver.FromAPI(c, p.Name(), p.pool))
		if err != nil {
			results[c.UID] = kubeletplugin.PrepareResult{Err: err}
			continue
		}
		results[c.UID] = kubeletplugin.PrepareResult{Devices: answerOf(r)}
	}
	return results, nil
}

func answerOf(r driver.Record) []kubeletplugin.Device {
	devices := make([]kubeletplugin.Device, 0, len(r.Devices))
	for i, d := range r.Devices {
		device := kubeletplugin.Device{
			Requests: []string{d.Request}, PoolName: d.Pool, DeviceName: d.Device, CDIDeviceIDs: []string{cdi.ID(r, i)},
		}
		if d.ShareID != "" {
			id := types.UID(d.ShareID)
			device.ShareID = &id
		}
		devices = append(devices, device)
	}
	return devices
}

// UnprepareResourceClaims undoes each claim by itself.
func (p *plugin) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(claims))
	for _, c := range claims {
		results[c.UID] = p.unprepare(ctx, driver.ClaimRef{UID: c.UID, Namespace: c.Namespace, Name: c.Name})
	}
	return results, nil
}

// HandleError hears of what fails in the background, such as publishing.
func (p *plugin) HandleError(ctx context.Context, err error, msg string) {
	runtime.HandleErrorWithContext(ctx, err, msg, "driver", p.Name())
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		p.fatal(fmt.Errorf("%s: %s: %w", p.Name(), msg, err))
	}
}

// WatchHealthStatus is not offered: health is told by conditions and taints.
func (p *plugin) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}
