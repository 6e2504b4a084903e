// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
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

// register has every driver follow the node's labels; the agent is ready when each
// has once.
func (a *agent) register(ctx context.Context, stop context.CancelCauseFunc) <-chan *publish.Publisher {
	publishers := make(chan *publish.Publisher)
	var all sync.WaitGroup
	if slices.Contains(a.Drivers, slicecodec.DriverCPU) && !slices.ContainsFunc(a.preparers, func(p *claims.Preparer) bool { return p.Name() == slicecodec.DriverCPU }) {
		go a.awaitCPUs(ctx, stop)
	}
	for _, p := range a.preparers {
		if p.Name() == slicecodec.DriverCPU {
			if err := a.refuseStatic(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "not registered")
				if slices.Contains(a.offered(), p.Name()) {
					a.events.Node(true, "StaticCPUManager", err.Error())
				}
				continue // the other drivers go on
			}
			go a.watchPolicy(ctx, stop)
		}
		all.Add(1)
		l := a.lifecycleOf(p, publishers, sync.OnceFunc(all.Done), stop)
		a.serving.Go(func() {
			defer l.settled()
			if err := l.run(klog.NewContext(ctx, klog.FromContext(ctx).WithName(p.Name()))); err != nil {
				stop(err)
			}
		})
		if p.Name() == slicecodec.DriverNet {
			go a.tellManaged(ctx)
		}
	}
	a.serving.Go(func() {
		all.Wait()
		if ctx.Err() == nil {
			a.health.done()
		}
	})
	return publishers
}

// lifecycleOf waits while another server of the driver is on the node: two would
// give one device away twice. The pods that have devices of ours are served
// meanwhile.
func (a *agent) lifecycleOf(p *claims.Preparer, publishers chan<- *publish.Publisher, settled func(), stop context.CancelCauseFunc) *lifecycle {
	node := registration.Node{
		Name: a.NodeName, KubeletRoot: a.KubeletRoot, AgentsDir: filepath.Join(a.StateDir, "agents"),
		PodUID: types.UID(a.PodUID), Client: a.client, Manager: kube.Manager,
	}
	var health *registration.Health
	if p.HeldNICs != nil { // what is watched are NICs
		health = a.nicHealth
	}
	said := false
	var left func()
	if p.Name() == slicecodec.DriverCPU {
		left = func() {
			stop(fmt.Errorf("%s is served on this node no more: the agent starts anew, and leaves containers' CPUs alone then", p.Name()))
		}
	}
	return &lifecycle{
		left: left,
		node: a.NodeName, preparer: p, selector: a.NodeSelectors[p.Name()], labels: &a.labels,
		publishers: publishers, settled: settled, pause: rivalPause,
		register: func(ctx context.Context) (publish.Helper, error) {
			r, err := registration.Register(ctx, p, node, health, func(err error) { stop(err) })
			if err != nil {
				return nil, err // not r: a nil pointer is no nil Helper
			}
			said = false
			return r, nil
		},
		publisher: func(h publish.Helper) *publish.Publisher {
			return &publish.Publisher{
				Driver: p.Name(), Pool: a.NodeName, CPUs: a.CPUs, Helper: h,
				Effect: resourceapi.DeviceTaintEffect(a.DeviceTaints), Counter: a.metrics,
			}
		},
		waits: func(err error) {
			a.health.waitFor("the end of another driver: " + err.Error())
			if !said {
				said = true
				klog.Background().Error(err, "not registered", "driver", p.Name())
				a.events.Node(true, "AnotherDriver", err.Error())
			}
		},
	}
}
