// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
)

// containerRuntime is the library's own runtime half, as container runtimes
// embed it, with what it runs as data.
type containerRuntime struct {
	*adaptation.Adaptation
	mu         sync.Mutex
	pods       []*api.PodSandbox
	containers []*api.Container
	updates    []string
	conns      []io.Closer
}

// die ends the runtime as a crash would: its connections close. The library's
// Stop leaves those of plugins open.
func (c *containerRuntime) die() {
	c.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// relay lets the test close connections that the library accepted.
func (c *containerRuntime) relay(t *testing.T, outer, inner string) {
	t.Helper()
	_ = os.Remove(outer)
	listener, err := net.Listen("unix", outer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	c.conns = append(c.conns, listener)
	go func() {
		for {
			plugin, err := listener.Accept()
			if err != nil {
				return
			}
			library, err := net.Dial("unix", inner)
			if err != nil {
				_ = plugin.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, plugin, library)
			c.mu.Unlock()
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_, _ = to.Close(), from.Close() // the end of one is the end of the other
			}
			go pass(library, plugin)
			go pass(plugin, library)
		}
	}()
}

func startRuntime(t *testing.T, socket string, c *containerRuntime, options ...adaptation.Option) {
	t.Helper()
	sync := func(ctx context.Context, deliver adaptation.SyncCB) error {
		updates, err := deliver(ctx, c.pods, c.containers)
		c.record("sync", updates)
		return err
	}
	update := func(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		c.record("update", updates)
		return nil, nil
	}
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner.sock")
	options = append(options, adaptation.WithSocketPath(inner), adaptation.WithPluginPath(dir), adaptation.WithPluginConfigPath(dir))
	a, err := adaptation.New("test", "v2.4.2", sync, update, options...)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	c.Adaptation = a
	c.relay(t, socket, inner)
}

func (c *containerRuntime) record(how string, updates []*api.ContainerUpdate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range updates {
		c.updates = append(c.updates, how+" "+u.GetContainerId()+" to "+u.GetLinux().GetResources().GetCpu().GetCpus())
	}
}

func (c *containerRuntime) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.updates)
}

// quietNRI silences the library, once: it keeps its logger in a global that what
// is left of a test before may still read.
var quietNRI = sync.OnceFunc(func() { nrilog.Set(quiet{}) })

type quiet struct{}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(context.Context, string, ...any)  {}
func (quiet) Errorf(context.Context, string, ...any) {}

// agent is what the tests look at: a runtime, and the preparers of a NIC driver
// and of the CPU driver, in this order.
type agent struct {
	*Runtime
	preparers []*claims.Preparer
}

func (a *agent) hooks() *hooks { return a.Runtime.hooks(Options{Preparers: a.preparers}) }

// connected is an agent with a NIC driver that writes down its moves and the
// real CPU driver, on a machine of two nodes with four CPUs each.
func connected(t *testing.T, socket string) (*agent, *agenttest.FakeDriver) {
	t.Helper()
	nic := &agenttest.FakeDriver{DriverName: "dra.net"}
	a, stop := startAgent(t, socket, t.TempDir(), nic)
	t.Cleanup(stop)
	return a, nic
}

// startAgent starts one on a node's directories; stop ends it.
func startAgent(t *testing.T, socket, dir string, nic *agenttest.FakeDriver) (a *agent, stop func()) {
	t.Helper()
	m := agenttest.TwoNodes(t)
	a = &agent{Runtime: New(socket)}
	a.namespaces.open = openAnything
	records, err := journal.Open(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	specs, err := cdi.Open(filepath.Join(dir, "cdi"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []claims.Driver{{Planner: nic, Attacher: nic}, {Planner: cpu.Driver{}, Pinner: cpu.Driver{}}} {
		a.preparers = append(a.preparers, &claims.Preparer{
			Driver: d, Journal: records, CDI: specs, BootID: "first-boot",
			Machine: func() *model.Machine { return m }, RuntimeReady: a.Ready, Namespaces: a.Namespaces(), Changed: a.Repin,
			Status: func(status.Report) {},
		})
	}
	h := a.hooks()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { a.link.run(ctx, h) })
	group.Go(func() { a.runRepins(ctx, h) })
	return a, func() { cancel(); group.Wait() }
}

// openAnything takes any path for a namespace.
func openAnything(path string) (namespace, error) {
	return namespace{id: path, given: path, path: path, close: func() {}}, nil
}

// prepared is a record as a connected agent would have made it.
func prepared(t *testing.T, p *claims.Preparer, c driver.Claim) driver.Record {
	t.Helper()
	now := p.RuntimeReady
	p.RuntimeReady = func() error { return nil }
	defer func() { p.RuntimeReady = now }()
	r, err := p.Prepare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func podOf(name, netns string) *api.PodSandbox {
	p := &api.PodSandbox{Id: name + "-sandbox", Uid: name + "-pod", Namespace: "default", Name: name, Pid: 1, Linux: &api.LinuxPodSandbox{}}
	if netns != "" {
		p.Linux.Namespaces = []*api.LinuxNamespace{{Type: "network", Path: netns}}
	}
	return p
}

func TestRuntimeLink(t *testing.T) {
	quietNRI()
	dir := t.TempDir()
	socket := filepath.Join(dir, "nri.sock")
	netns := filepath.Join(dir, "netns")
	if err := os.WriteFile(netns, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a, nic := connected(t, socket)
	nicClaims, cpuClaims := a.preparers[0], a.preparers[1]
	claim := agenttest.ClaimFor("a", "cpudevnuma001")

	if _, err := cpuClaims.Prepare(t.Context(), claim); err == nil || !strings.Contains(err.Error(), "not connected") {
		t.Errorf("prepare before there is a runtime: %v, want a refusal", err)
	}

	shared := &api.Container{Id: "shared", PodSandboxId: "b-sandbox", Name: "main", State: api.ContainerState_CONTAINER_RUNNING}
	first := &containerRuntime{pods: []*api.PodSandbox{podOf("b", netns)}, containers: []*api.Container{shared}}
	startRuntime(t, socket, first)
	agenttest.Eventually(t, "the first synchronisation", func() bool { return a.Ready() == nil })

	// Preparing CPUs moves the container that was there off them.
	r, err := cpuClaims.Prepare(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "the shared container gives way", func() bool { return slices.Contains(first.seen(), "update shared to 0-3") })

	pod := podOf("a", netns)
	if _, err := nicClaims.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err != nil {
		t.Fatal(err)
	}
	if err := first.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: pod}); err != nil {
		t.Fatal(err)
	}
	container := &api.Container{
		Id: "own", PodSandboxId: pod.Id, Name: "main",
		CDIDevices: []*api.CDIDevice{{Name: cdi.ID(r, 0)}, {Name: "dra.net/claim=a-uid-nic0"}},
	}
	answer, err := first.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: pod, Container: container})
	if err != nil {
		t.Fatal(err)
	}
	if set := answer.GetAdjust().GetLinux().GetResources().GetCpu(); set.GetCpus() != "4-7" || set.GetMems() != "1" {
		t.Errorf("the container runs on CPUs %q and nodes %q, want 4-7 and 1", set.GetCpus(), set.GetMems())
	}

	// The runtime restarts: connected again, everything is looked at again.
	// The pod of the NIC lives, so its NIC is attached, not brought back.
	first.die()
	agenttest.Eventually(t, "the loss is noticed", func() bool { return a.Ready() != nil })
	second := &containerRuntime{pods: []*api.PodSandbox{podOf("b", netns), pod}, containers: []*api.Container{shared}}
	startRuntime(t, socket, second)
	defer second.die()
	agenttest.Eventually(t, "the second synchronisation", func() bool { return slices.Contains(second.seen(), "sync shared to 0-3") })

	if err := second.StopPodSandbox(t.Context(), &api.StopPodSandboxRequest{Pod: pod}); err != nil {
		t.Fatal(err)
	}
	// At the sandbox, made sure of at the container, and after the restart.
	want := strings.Repeat("attach a to "+netns+"; ", 3) + "detach a from " + netns
	nic.Mu.Lock()
	got := strings.Join(nic.Actions, "; ")
	nic.Mu.Unlock()
	if got != want {
		t.Errorf("the NIC's moves: %q, want %q", got, want)
	}

	// With the claim gone the shared container has the whole machine again.
	if err := cpuClaims.Unprepare(t.Context(), claim.ClaimRef); err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "the shared container is set free", func() bool { return slices.Contains(second.seen(), "update shared to 0-7") })
}

// A pod that died together with the agent gets no StopPodSandbox any more.
func TestSynchronizeBringsBackWhatNobodyHolds(t *testing.T) {
	a, nic := connected(t, "/nowhere")
	prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	h := a.hooks()
	if _, err := h.Synchronize(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(nic.Actions, "; "); got != "detach a from " {
		t.Errorf("actions %q, want the NIC brought back", got)
	}
}

func TestRunPodSandboxFailsThePod(t *testing.T) {
	a, nic := connected(t, "/nowhere")
	prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	var told []status.DeviceState
	a.preparers[0].Status = func(r status.Report) { told = r.Devices }
	nic.Refuse = errors.New("move eth3 into pod namespace: interface is down")
	h := a.hooks()
	if err := h.RunPodSandbox(t.Context(), podOf("a", "/run/netns/a")); !errors.Is(err, nic.Refuse) {
		t.Errorf("got %v, want the driver's reason", err)
	}
	if a.state.HasSandbox(podOf("a", "").GetId()) {
		t.Error("the refused sandbox is remembered, want it forgotten")
	}
	if len(told) != 1 || told[0].Err == nil || told[0].Reason != "AttachFailed" {
		t.Errorf("claim status %+v, want AttachFailed", told)
	}
	if err := h.RunPodSandbox(t.Context(), podOf("a", "")); err == nil || !strings.Contains(err.Error(), "want hostNetwork: false") {
		t.Errorf("a pod in the host's network: got %v, want a refusal", err)
	}
}

// The records decide, not memory: another agent's claim is seen at once.
func TestHooksDecideFromDisk(t *testing.T) {
	a, nic := connected(t, "/nowhere")
	other, err := journal.Open(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	a.preparers[0].Journal = other
	r, err := nic.Plan(agenttest.ClaimFor("late", "nic0"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.BootID = a.preparers[0].BootID
	if err := other.Put(r); err != nil {
		t.Fatal(err)
	}
	h := a.hooks()
	if err := h.RunPodSandbox(t.Context(), podOf("late", "/run/netns/late")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(nic.Actions, "; "); got != "attach late to /run/netns/late" {
		t.Errorf("actions %q, want the attach", got)
	}
	if sandbox, lives := a.state.Sandbox(types.UID("late-pod")); lives {
		t.Errorf("sandbox %+v of a path that does not exist, want none", sandbox)
	}
}

// A hook that overruns gets the plugin dropped and the pod run without its NIC,
// so a late hook is an error in time, and its work is not lost.
func TestLateHookFailsInTime(t *testing.T) {
	a, nic := connected(t, "/nowhere")
	prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	soon := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 10*time.Millisecond)
	}
	h := a.hooks()
	h.deadline = soon
	nic.Mu.Lock() // the kernel is slow
	err := h.RunPodSandbox(t.Context(), podOf("a", "/run/netns/a"))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "goes on") {
		t.Errorf("got %v, want the deadline's error", err)
	}
	nic.Mu.Unlock()
	agenttest.Eventually(t, "the attach is done", func() bool {
		nic.Mu.Lock()
		defer nic.Mu.Unlock()
		return slices.Contains(nic.Actions, "attach a to /run/netns/a")
	})
}

// A hook's work may outlive the hook. Where the claim was unprepared meanwhile,
// a late attach would take a NIC that nobody remembers.
func TestLateAttachOfAClaimThatIsGone(t *testing.T) {
	a, nic := connected(t, "/nowhere")
	p := a.preparers[0]
	p.Status = func(status.Report) {}
	r := prepared(t, p, agenttest.ClaimFor("a", "nic0"))
	if err := p.Unprepare(t.Context(), r.Claim); err != nil {
		t.Fatal(err)
	}
	h := a.hooks()
	if err := h.attach(t.Context(), r, runtimestate.SandboxOf(podOf("a", "/run/netns/a")), false); !errors.Is(err, errSuperseded) {
		t.Errorf("attach: got %v, want errSuperseded", err)
	}
	if _, err := h.detach(t.Context(), r, runtimestate.Sandbox{}); err != nil {
		t.Errorf("detach: %v", err)
	}
	for _, action := range nic.Actions {
		if strings.HasPrefix(action, "attach") {
			t.Errorf("actions %q: the NIC was taken", nic.Actions)
		}
	}
}
