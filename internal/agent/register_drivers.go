// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/publish"
	"plumbline.dev/plumbline/internal/agent/registration"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// rivalPause is how often to look whether another server of a driver has left.
const rivalPause = 5 * time.Second

// register offers every driver to the kubelet, each as soon as it can be; the
// agent is ready when all are.
func (a *agent) register(ctx context.Context, stop context.CancelCauseFunc) <-chan *publish.Publisher {
	node := registration.Node{
		Name: a.NodeName, KubeletRoot: a.KubeletRoot, AgentsDir: filepath.Join(a.StateDir, "agents"),
		PodUID: types.UID(a.PodUID), Client: a.client, Manager: kube.Manager,
	}
	registered := make(chan *publish.Publisher)
	var all sync.WaitGroup
	for _, p := range a.preparers {
		if p.Name() == slicecodec.DriverCPU {
			if err := a.refuseStatic(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "not registered")
				a.events.Node(true, "StaticCPUManager", err.Error())
				continue // the other drivers go on
			}
			go a.watchPolicy(ctx, stop)
		}
		all.Add(1)
		a.serving.Go(func() {
			defer all.Done()
			ctx := klog.NewContext(ctx, klog.FromContext(ctx).WithName(p.Name()))
			offered, err := a.registerOne(ctx, p, node, stop)
			if err != nil {
				stop(err)
				return
			}
			select {
			case registered <- &publish.Publisher{
				Driver: p.Name(), Pool: a.NodeName, CPUs: a.CPUs, Helper: offered,
				Effect: resourceapi.DeviceTaintEffect(a.DeviceTaints), Counter: a.metrics,
			}:
			case <-ctx.Done():
				offered.Stop()
			}
		})
	}
	a.serving.Go(func() {
		all.Wait()
		if ctx.Err() == nil {
			a.health.done()
		}
	})
	return registered
}

// registerOne waits while another server of the driver is on the node: two would
// give one device away twice. The pods that have devices of ours are served
// meanwhile.
func (a *agent) registerOne(ctx context.Context, p *claims.Preparer, node registration.Node, stop context.CancelCauseFunc) (*registration.Registration, error) {
	var health *registration.Health
	if p.HeldNICs != nil { // what is watched are NICs
		health = a.nicHealth
	}
	for said := false; ; said = true {
		offered, err := registration.Register(ctx, p, node, health, func(err error) { stop(err) })
		if !errors.Is(err, registration.ErrRival) {
			return offered, err
		}
		a.health.waitFor("the end of another driver: " + err.Error())
		if !said {
			klog.FromContext(ctx).Error(err, "not registered")
			a.events.Node(true, "AnotherDriver", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(rivalPause):
		}
	}
}
