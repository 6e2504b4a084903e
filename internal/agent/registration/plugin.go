// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
)

// Node is where a driver is offered.
type Node struct {
	// Name is also the pool's.
	Name string
	// KubeletRoot holds plugins and plugins_registry.
	KubeletRoot string
	// AgentsDir is where agents of this system tell each other that they live.
	AgentsDir string
	// PodUID is the agent's own pod; empty: one agent at a time.
	PodUID types.UID
	Client kubernetes.Interface
	// Manager is whose the fields of slices are that agents of this system write.
	Manager string
}

// plugin is one driver as the kubelet sees it.
type plugin struct {
	*claims.Preparer
	pool string
	// health is nil where devices are not watched.
	health *Health
	// fatal stops the agent: something that no retry mends.
	fatal func(error)
	// stopped is set before the servers end, which is no fault then.
	stopped atomic.Bool
}

// Registration is a driver that the kubelet knows.
type Registration struct {
	*kubeletplugin.Helper
	plugin *plugin
	unmark func()
}

// Stop ends it. The kubelet may call until then, so other agents see the sockets
// marked until then.
func (r *Registration) Stop() {
	r.plugin.stopped.Store(true)
	r.Helper.Stop()
	r.unmark()
}

// Register offers a driver to the kubelet, which from then on sends claims. health
// is that of the devices, nil where they are not watched; fatal is called with an
// error that no retry mends. The error is ErrRival while another server of the
// driver is on the node.
func Register(ctx context.Context, p *claims.Preparer, n Node, health *Health, fatal func(error)) (*Registration, error) {
	for _, dir := range []string{n.data(p.Name()), n.registry()} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, fmt.Errorf("register %s: %w", p.Name(), err)
		}
	}
	if err := n.refuseRivals(ctx, p.Name()); err != nil {
		return nil, fmt.Errorf("register %s with the kubelet: %w", p.Name(), err)
	}
	unmark, err := n.mark(p.Name())
	if err != nil {
		return nil, fmt.Errorf("register %s with the kubelet: %w", p.Name(), err)
	}
	served := &plugin{Preparer: p, pool: n.Name, health: health, fatal: fatal}
	helper, err := kubeletplugin.Start(ctx, served,
		kubeletplugin.DriverName(p.Name()),
		kubeletplugin.NodeName(n.Name),
		kubeletplugin.KubeClient(n.Client),
		kubeletplugin.PluginDataDirectoryPath(n.data(p.Name())),
		kubeletplugin.RegistrarDirectoryPath(n.registry()),
		kubeletplugin.PluginListener(listen),
		kubeletplugin.RegistrarListener(listen),
		kubeletplugin.Serialize(false), // the journal's locks are per claim
		kubeletplugin.RollingUpdate(n.PodUID),
		kubeletplugin.HealthService(health != nil),
	)
	if err != nil {
		unmark()
		return nil, fmt.Errorf("register %s with the kubelet: %w", p.Name(), err)
	}
	return &Registration{Helper: helper, plugin: served, unmark: unmark}, nil
}

// PrepareResourceClaims answers every claim by itself: one that is refused
// does not hold up the others.
func (p *plugin) PrepareResourceClaims(ctx context.Context, all []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	mine := make([]driver.Claim, len(all))
	for i, c := range all {
		mine[i] = driver.FromAPI(c, p.Name(), p.pool)
	}
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(all))
	for i, done := range p.PrepareAll(ctx, mine) {
		if done.Err != nil {
			results[all[i].UID] = kubeletplugin.PrepareResult{Err: done.Err}
			continue
		}
		results[all[i].UID] = kubeletplugin.PrepareResult{Devices: answerOf(done.Record)}
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
func (p *plugin) UnprepareResourceClaims(ctx context.Context, all []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(all))
	for _, c := range all {
		results[c.UID] = p.Unprepare(ctx, driver.ClaimRef{UID: c.UID, Namespace: c.Namespace, Name: c.Name})
	}
	return results, nil
}

// HandleError is called with what fails in the background, such as publishing.
func (p *plugin) HandleError(ctx context.Context, err error, msg string) {
	runtime.HandleErrorWithContext(ctx, err, msg, "driver", p.Name())
	if !errors.Is(err, kubeletplugin.ErrRecoverable) && !p.stopped.Load() {
		p.fatal(fmt.Errorf("%s: %s: %w", p.Name(), msg, err))
	}
}
