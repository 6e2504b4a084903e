// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/metrics"
	"plumbline.dev/plumbline/internal/agent/nodepods"
	"plumbline.dev/plumbline/internal/agent/publish"
	"plumbline.dev/plumbline/internal/agent/runtimehooks"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/agent/verifying"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver/gpu"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// resync is how often the host is looked at without an event.
const resync = 5 * time.Minute

// agent is everything that runs on one node.
type agent struct {
	Options
	client    kubernetes.Interface
	picture   *publish.Picture
	runtime   *runtimehooks.Runtime
	status    *status.Writer
	events    *status.Events
	metrics   *metrics.Metrics
	preparers []*claims.Preparer
	clouds    clouds
	// heldChanged has a value when a record came or went.
	heldChanged chan struct{}
	health      progress
	serving     sync.WaitGroup
	// pods are the node's, as the API server says; none before the runtime is
	// joined.
	pods nodepods.Pods
	// verifier is nil where pods are not verified.
	verifier atomic.Pointer[verifying.Verifier]
}

// Run serves a node until ctx ends.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("options: %w", err)
	}
	start := run
	if o.observes() {
		start = observe
	}
	err := start(ctx, o)
	if ctx.Err() != nil {
		return nil // told to stop, however far the start had come
	}
	return err
}

// run is the one start order: look at the machine, read what was prepared,
// connect to the container runtime and let it say what it runs, and only then
// take claims and offer devices. A claim that came earlier could be answered
// from half the truth.
func run(ctx context.Context, o Options) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	a, needed, err := open(ctx, o)
	if err != nil {
		return err
	}

	a.health.waitFor("the first scan of the machine")
	sources, closeSources, err := openSources(o, needed)
	if err != nil {
		return err
	}
	defer closeSources()
	look, err := scanOptions(o)
	if err != nil {
		return err
	}
	scans := inventory.Watch(ctx, sources, look, resync)
	first, err := firstScan(ctx, scans, o)
	if err != nil {
		return err
	}

	a.health.waitFor("the journal")
	defer a.closeDrivers()
	// Hooks that are in flight need the drivers, so these are closed after.
	defer func() { stop(nil); a.serving.Wait() }()
	if err := a.readJournal(ctx); err != nil {
		return err
	}
	a.countHoldings(ctx)
	loop, err := a.newLoop(ctx, scans)
	if err != nil {
		return err
	}
	if err := loop.Take(ctx, first); err != nil {
		return err
	}
	a.clouds.run(ctx)

	a.health.waitFor("the container runtime")
	if err := a.joinRuntime(ctx); err != nil {
		return err
	}

	a.health.waitFor("the kubelet")
	go a.status.Run(ctx)
	if loop.Publishers, err = a.register(ctx, stop); err != nil {
		return err
	}

	loop.Publish(ctx)
	a.verifyPods(ctx, a.pods)
	a.health.done()
	loop.Run(ctx)
	for _, p := range loop.Publishers {
		p.Helper.Stop()
	}
	return context.Cause(ctx)
}

// open connects to the API server, answers health probes from now on, and
// learns what the node is: its labels choose the drivers, its addresses the
// links that it cannot spare.
func open(ctx context.Context, o Options) (*agent, []netip.Addr, error) {
	client, config, err := connect(o.Kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	events := status.NewEvents(ctx, o.NodeName)
	go events.Run(ctx, client)
	a := &agent{
		Options: o, client: client, events: events, picture: &publish.Picture{}, runtime: runtimehooks.New(o.NRISocket),
		status: status.NewWriter(client, events), heldChanged: make(chan struct{}, 1), metrics: metrics.New(),
	}
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make state directory: %w", err)
	}
	a.health.waitFor("the API server")
	if err := errors.Join(a.serveSocket(ctx), a.serveMetrics(ctx)); err != nil {
		return nil, nil, err
	}
	node, err := getNode(ctx, client, o.NodeName, filepath.Join(o.StateDir, "node.json"))
	if err != nil {
		return nil, nil, err
	}
	a.Drivers = o.served(labels.Set(node.Labels))
	return a, neededAddresses(node, config), nil
}

// firstScan refuses a host that the options do not fit.
func firstScan(ctx context.Context, scans <-chan inventory.Snapshot, o Options) (inventory.Snapshot, error) {
	first, ok := <-scans
	if !ok {
		return first, context.Cause(ctx)
	}
	if first.Err != nil {
		return first, fmt.Errorf("scan the machine: %w", first.Err)
	}
	if o.GPUMode == GPUSimulated {
		return first, gpu.RefuseRealHardware(first.Machine)
	}
	return first, nil
}

// openSources says where to look at the machine.
func openSources(o Options, needed []netip.Addr) (inventory.Sources, func(), error) {
	gpus, err := gpuSource(o)
	if err != nil {
		return inventory.Sources{}, nil, err
	}
	own, err := netns.Open(netns.Self)
	if err != nil {
		return inventory.Sources{}, nil, err
	}
	links, err := inventory.OpenNetlink(own.Fd(), needed)
	if err != nil {
		return inventory.Sources{}, nil, errors.Join(err, own.Close())
	}
	sys, err := sysfs.Open(o.SysfsRoot)
	if err != nil {
		links.Close()
		return inventory.Sources{}, nil, errors.Join(err, own.Close())
	}
	closeAll := func() {
		links.Close()
		_ = own.Close()
		_ = sys.Close()
	}
	return inventory.Sources{Sys: sys, Links: links, GPUs: gpus}, closeAll, nil
}

// readJournal opens what is on disk, and makes the CDI directory agree with it.
func (a *agent) readJournal(ctx context.Context) error {
	bootID, err := journal.BootID(os.DirFS(a.ProcRoot))
	if err != nil {
		return err
	}
	records, err := journal.Open(a.journalDir())
	if err != nil {
		return err
	}
	specs, err := cdi.Open(a.CDIDir)
	if err != nil {
		return err
	}
	if err := a.openClouds(ctx, records, bootID); err != nil {
		return err
	}
	guardPath := a.installGuard(ctx)
	for _, name := range a.Drivers {
		served, err := newDriver(name, a.Options, bootID)
		if err != nil {
			return err
		}
		p := &claims.Preparer{
			Driver: served, Journal: records, CDI: specs, BootID: bootID,
			Machine: a.picture.Current, RuntimeReady: a.runtime.Ready, Namespaces: a.runtime.Namespaces(),
			Status: a.status.Set, Changed: a.claimsChanged, Metrics: a.metrics,
		}
		p.Missing, p.Guard = p.MissingNICs, guardPath
		if p.Pinner != nil {
			p.Confine = a.runtime.Confine
		}
		a.clouds.serve(p)
		if err := p.Recover(ctx); err != nil {
			return err
		}
		a.preparers = append(a.preparers, p)
	}
	return nil
}

func (a *agent) closeDrivers() {
	for _, p := range a.preparers {
		if p.Close != nil {
			p.Close()
		}
	}
}

// joinRuntime connects to the container runtime and waits until it has said
// what it runs. Without a driver that needs it, nobody connects.
func (a *agent) joinRuntime(ctx context.Context) error {
	if !a.needsRuntime() {
		var err error
		if a.VerifyInterval > 0 {
			a.pods, err = nodepods.Watch(ctx, a.client, a.NodeName)
		}
		return err
	}
	// Until the last hook is answered, which is after ctx has ended.
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	known, err := nodepods.Watch(watching, a.client, a.NodeName)
	if err != nil {
		unwatch()
		return err
	}
	a.pods = known
	a.serving.Go(func() {
		defer unwatch()
		a.runtime.Serve(ctx, runtimehooks.Options{Preparers: a.preparers, Pods: known, Events: a.events, Metrics: a.metrics})
	})
	select {
	case <-a.runtime.Joined():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// register offers every driver to the kubelet.
func (a *agent) register(ctx context.Context, stop context.CancelCauseFunc) ([]*publish.Publisher, error) {
	node := claims.Node{
		Name: a.NodeName, KubeletRoot: a.KubeletRoot, AgentsDir: filepath.Join(a.StateDir, "agents"),
		PodUID: types.UID(a.PodUID), Client: a.client,
	}
	var publishers []*publish.Publisher
	for _, p := range a.preparers {
		if p.Name() == slicecodec.DriverCPU {
			if err := a.refuseStatic(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "not registered")
				a.events.Node(true, "StaticCPUManager", err.Error())
				continue // the other drivers go on
			}
			go a.watchPolicy(ctx, stop)
		}
		registration, err := a.registerOne(klog.NewContext(ctx, klog.FromContext(ctx).WithName(p.Name())), p, node, stop)
		if err != nil {
			return nil, err
		}
		publishers = append(publishers, &publish.Publisher{
			Driver: p.Name(), Pool: a.NodeName, CPUs: a.CPUs, Helper: registration,
			Effect: resourceapi.DeviceTaintEffect(a.DeviceTaints), Counter: a.metrics,
		})
	}
	return publishers, nil
}

// rivalPause is how often to look whether another server of a driver has left.
const rivalPause = 5 * time.Second

// registerOne waits while another server of the driver is on the node: two would
// give one device away twice. The pods that have devices of ours are served
// meanwhile.
func (a *agent) registerOne(ctx context.Context, p *claims.Preparer, node claims.Node, stop context.CancelCauseFunc) (*claims.Registration, error) {
	for said := false; ; said = true {
		registration, err := p.Register(ctx, node, func(err error) { stop(err) })
		if !errors.Is(err, claims.ErrRival) {
			return registration, err
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
