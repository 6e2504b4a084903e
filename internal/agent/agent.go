// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/addressblocks"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/hostreport"
	"plumbline.dev/plumbline/internal/agent/publish"
	"plumbline.dev/plumbline/internal/agent/registration"
	"plumbline.dev/plumbline/internal/agent/runtimehooks"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/agent/verifying"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/devicemetadata"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/procfs"
	"plumbline.dev/plumbline/internal/host/procmem"
	"plumbline.dev/plumbline/internal/hostpolicy"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/metrics"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

const (
	// resync is how often the host is looked at without an event. The kernel tells
	// nobody that a program of tcx came or went.
	resync = time.Minute
	// settled is how long after its start the agent has done what it does only then.
	settled = 20 * time.Second
)

// agent is everything that runs on one node.
type agent struct {
	Options
	client    kubernetes.Interface
	merged    *publish.MergedMachine
	runtime   *runtimehooks.Runtime
	status    *status.Writer
	events    *kube.Events
	metrics   *metrics.Metrics
	preparers []*claims.Preparer
	clouds    clouds
	// offer is what the host's checks say of the NICs that are offered.
	offer *hostreport.Offer
	// gate keeps claims from NICs whose virtual functions are about to change.
	gate hostpolicy.Gate
	// shares are the NICs that policies offer to many pods at once.
	shares *hostpolicy.Shares
	// blocks are the node's of pools of addresses.
	blocks *addressblocks.Keeper
	// heldChanged has a value when a record came or went.
	heldChanged chan struct{}
	// addressesChanged has a value when claims may have others.
	addressesChanged chan struct{}
	// wanted has a value when a claim waits for what others hold.
	wanted    chan struct{}
	labels    nodeLabels
	health    progress
	nicHealth *registration.Health
	serving   sync.WaitGroup
	// pods are the node's, as the API server says; none before the runtime is
	// joined.
	pods kube.Pods
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
	a, follower, err := open(ctx, o)
	if err != nil {
		return err
	}

	a.health.waitFor("the first scan of the machine")
	sources, closeSources, err := openSources(ctx, o, follower)
	if err != nil {
		return err
	}
	defer closeSources()
	look, err := scanOptions(o)
	if err != nil {
		return err
	}
	look.Lost = a.metrics.Resynced
	if told := a.readTopologyFile(ctx); told != nil {
		look.PairedGPUs = told
	}
	closeAsked, err := askDriver(a.Options, &look)
	if err != nil {
		return err
	}
	defer closeAsked()
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
	a.countCPUs(ctx)
	loop, err := a.newPublishLoop(ctx, scans)
	if err != nil {
		return err
	}
	if err := loop.Take(ctx, first); err != nil {
		return err
	}
	machineChanged, err := a.reportHost(ctx, follower.Config)
	if err != nil {
		return err
	}
	if err := a.followAddresses(ctx, follower.Config); err != nil {
		return err
	}
	taken := loop.Taken
	loop.Taken = func() { taken(); machineChanged() }
	a.clouds.run(ctx)

	a.health.waitFor("the container runtime")
	if err := a.joinRuntime(ctx); err != nil {
		return err
	}

	a.health.waitFor("the kubelet")
	go a.status.Run(ctx)
	loop.Registered = a.register(ctx, stop)
	a.verifyPods(ctx, a.pods)
	a.serving.Go(func() { a.sweeper().Run(ctx) })
	go shrink(ctx)
	loop.Run(ctx)
	for _, p := range loop.Publishers {
		p.Helper.Stop()
	}
	return context.Cause(ctx)
}

// open connects to the API server, answers health probes from now on, and
// learns what the node is: its labels say which drivers offer devices, its addresses the
// links that it cannot spare.
func open(ctx context.Context, o Options) (*agent, *kube.AddressPoller, error) {
	client, config, err := kube.Connect(o.Kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	events := kube.NewEvents(ctx, o.NodeName)
	go events.Run(ctx, client)
	a := &agent{
		Options: o, client: client, events: events, merged: &publish.MergedMachine{}, runtime: runtimehooks.New(o.NRISocket),
		status: status.NewWriter(client, events), heldChanged: make(chan struct{}, 1), addressesChanged: make(chan struct{}, 1), wanted: make(chan struct{}, 1), metrics: metrics.New(),
	}
	a.status.Failed = a.metrics.StatusFailed
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make state directory: %w", err)
	}
	a.health.waitFor("the API server")
	if err := errors.Join(a.serveSocket(ctx), a.serveMetrics(ctx)); err != nil {
		return nil, nil, err
	}
	kept := filepath.Join(o.StateDir, "node.json")
	node, err := kube.Node(ctx, client, o.NodeName, kept)
	if err != nil {
		return nil, nil, err
	}
	a.Drivers = o.served()
	a.labels.set(node.Labels)
	return a, &kube.AddressPoller{
		Client: client, Config: config, Name: o.NodeName, File: kept, Addresses: kube.NeededAddresses(node, config),
		Labels: a.labels.set,
	}, nil
}

// readJournal opens what is on disk, and makes the CDI directory agree with it.
func (a *agent) readJournal(ctx context.Context) error {
	bootID, err := procfs.BootID(os.DirFS(a.ProcRoot))
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
	told, err := devicemetadata.Open(filepath.Join(a.StateDir, "metadata"))
	if err != nil {
		return err
	}
	if err := a.openClouds(ctx, records, bootID); err != nil {
		return err
	}
	if a.shares, err = hostpolicy.OpenShares(filepath.Join(a.StateDir, "host-shares.json")); err != nil {
		return err
	}
	if a.blocks, err = addressblocks.Open(a.StateDir, a.NodeName); err != nil {
		return err
	}
	guardPath := a.installGuard(ctx)
	for _, name := range a.Drivers {
		opened, err := opens(name, a.offered(), records)
		if err != nil {
			return err
		}
		if !opened {
			continue
		}
		served, err := newDriver(name, a.Options, bootID, a.merged.Current, a.blocks)
		if err != nil {
			return err
		}
		p := &claims.Preparer{
			Driver: served, Journal: records, CDI: specs, BootID: bootID,
			Machine: a.merged.Current, RuntimeReady: a.runtime.Ready, Namespaces: a.runtime.Namespaces(),
			Status: a.status.Set, Changed: a.claimsChanged, Metrics: a.metrics,
			ReleaseAtMost: claims.ReleaseAtMost, Waits: a.claimWaits,
			Unreadable: func(problem error) { a.events.Node(true, "RecordUnreadable", problem.Error()) },
		}
		p.Missing, p.Guard = p.MissingNICs, guardPath
		p.WithoutMetadata = !a.DeviceMetadata
		p.Metadata, p.Published = told, func() []resourceapi.Device { return slicecodec.Encode(a.merged.Current(), name, a.CPUs) }
		if p.Pinner != nil {
			p.Confine = a.runtime.Confine
			beside := besides(a.CPUs.Mode, records)
			p.Resolve = func(ctx context.Context, c driver.Claim) (driver.Claim, error) {
				return a.refuseUnmirrored(ctx, a.locate(ctx, beside(c)))
			}
		}
		a.clouds.serve(p)
		a.serveNCCL(p)
		a.serveAddresses(p)
		if err := p.Recover(ctx); err != nil {
			return err
		}
		a.preparers = append(a.preparers, p)
	}
	return nil
}

func (a *agent) closeDrivers() {
	for _, p := range a.preparers {
		p.End()
	}
	a.runtime.Close() // all hooks have ended: no file descriptor of a namespace is in use
}

// shrink gives back, once, the memory that only the start needed.
func shrink(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(settled):
	}
	if err := procmem.Trim(); err != nil {
		klog.FromContext(ctx).Info("memory that only the start needed is kept", "reason", err.Error())
	}
}
