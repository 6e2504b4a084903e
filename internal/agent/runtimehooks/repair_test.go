// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/pinning"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/netns"
)

// told keeps what claim status was asked to say, a line each.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (w *told) set(r status.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range r.Devices {
		line := r.Claim.Name + " " + d.Reason
		if d.Err != nil {
			line += ": " + d.Err.Error()
		}
		if d.Note != "" {
			line += ", " + d.Note
		}
		w.lines = append(w.lines, line)
	}
}

func (w *told) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lines) == 0 {
		return ""
	}
	return w.lines[len(w.lines)-1]
}

// working is a connected agent whose repairs run.
func working(t *testing.T) (*agent, *agenttest.FakeDriver, *hooks, *told) {
	t.Helper()
	a, nic := connected(t, "/nowhere")
	said := &told{}
	a.preparers[0].Status = said.set
	h := a.hooks()
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { h.runRepairs(ctx, a.repairs) })
	group.Go(func() { h.runRenewals(ctx, a.renewals) })
	group.Go(func() { h.watchGone(ctx) })
	t.Cleanup(func() { stop(); group.Wait() })
	return a, nic, h, said
}

func (a *agent) actions(nic *agenttest.FakeDriver) string {
	nic.Mu.Lock()
	defer nic.Mu.Unlock()
	return strings.Join(nic.Actions, "; ")
}

func setRefuse(nic *agenttest.FakeDriver, err error) {
	nic.Mu.Lock()
	defer nic.Mu.Unlock()
	nic.Refuse = err
}

// A pod that ran without its NIC gets it when the agent is back, and its claim
// says so.
func TestRepairTellsTheStory(t *testing.T) {
	a, _, h, said := working(t)
	prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	lacks := []string{"device nic0 of claim default/a is not in the pod's network namespace"}
	a.preparers[0].Missing = func(driver.Record, string) ([]string, error) { return lacks, nil }
	pods := []*api.PodSandbox{podOf("a", existing(t))}
	if _, err := h.Synchronize(t.Context(), pods, nil); err != nil {
		t.Fatal(err)
	}
	if got := said.last(); !strings.HasPrefix(got, "a Repaired, put right at ") || !strings.Contains(got, lacks[0]) {
		t.Errorf("the claim says %q, want what was put right", got)
	}
	lacks = nil
	if _, err := h.Synchronize(t.Context(), pods, nil); err != nil {
		t.Fatal(err)
	}
	if got := said.last(); got != "a Attached" {
		t.Errorf("the claim says %q, want no story where nothing was wrong", got)
	}
}

// A failed repair used to wait for the next connection.
func TestFailedRepairIsTriedAgain(t *testing.T) {
	a, nic, h, said := working(t)
	prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	setRefuse(nic, errors.New("device or resource busy"))
	netns := existing(t)
	if _, err := h.Synchronize(t.Context(), []*api.PodSandbox{podOf("a", netns)}, nil); err != nil {
		t.Fatal(err)
	}
	if got := said.last(); got != "a AttachFailed: device or resource busy" {
		t.Errorf("the claim says %q, want the failure", got)
	}
	agenttest.Eventually(t, "it is tried again", func() bool { return strings.Count(a.actions(nic), "attach a") >= 3 })
	setRefuse(nic, nil)
	agenttest.Eventually(t, "it is repaired", func() bool { return strings.HasPrefix(said.last(), "a Attached") })
}

// A lock that somebody holds is a reason like any other.
func TestLockErrorIsTold(t *testing.T) {
	a, _, h, said := working(t)
	p := a.preparers[0]
	r := prepared(t, p, agenttest.ClaimFor("a", "nic0"))
	unlock, err := p.Journal.LockClaim(t.Context(), r.Driver, r.Claim.UID)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := h.attach(ctx, r, runtimestate.SandboxOf(podOf("a", "/run/netns/a")), true); err == nil {
		t.Error("attached without the lock")
	}
	if got := said.last(); !strings.HasPrefix(got, "a AttachFailed: lock claim a-uid") {
		t.Errorf("the claim says %q, want the lock", got)
	}
}

func TestFailedDetachIsTriedAgain(t *testing.T) {
	a, nic, h, said := working(t)
	prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	pod := podOf("a", existing(t))
	if err := h.RunPodSandbox(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	setRefuse(nic, errors.New("device or resource busy"))
	if err := h.StopPodSandbox(t.Context(), pod); err != nil {
		t.Errorf("the pod is kept from stopping: %v", err)
	}
	if got := said.last(); got != "a RestoreFailed: device or resource busy" {
		t.Errorf("the claim says %q, want the failure", got)
	}
	setRefuse(nic, nil)
	agenttest.Eventually(t, "it is back", func() bool { return strings.HasPrefix(said.last(), "a Restored, ") })
	if strings.Count(a.actions(nic), "attach a") != 1 {
		t.Errorf("actions %q: attached again into a pod that has stopped", a.actions(nic))
	}
}

// A namespace that goes away without a hook is noticed, and its device comes
// back through the descriptor that is held. Real namespaces, mounted as the
// container runtime does.
func TestNamespaceThatIsGone(t *testing.T) {
	a, nic, h, said := working(t)
	a.namespaces.open = openNamespace
	pod := hosttest.NewNamespace(t)
	path := existing(t)
	bind(t, pod.Path(), path)
	prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	if err := h.RunPodSandbox(t.Context(), podOf("a", path)); err != nil {
		t.Fatal(err)
	}
	held := a.namespaces.Of(driver.Record{Driver: "dra.net", Claim: driver.ClaimRef{UID: "a-uid"}})
	if !strings.HasPrefix(held, "/proc/self/fd/") {
		t.Fatalf("held as %q, want a descriptor", held)
	}
	pod.Close()
	unbind(t, path)
	agenttest.Eventually(t, "it is noticed", func() bool { return strings.HasPrefix(said.last(), "a Restored, ") })
	if got, want := a.actions(nic), "attach a to "+held+"; detach a from "+held; got != want {
		t.Errorf("actions %q, want %q", got, want)
	}
	if _, err := netns.Open(held); err == nil {
		t.Error("the descriptor is still open")
	}
}

// A sandbox made anew, of which no hook told that the old one is gone: the
// device comes back from there first.
func TestAnotherSandboxOfThePod(t *testing.T) {
	a, nic, h, _ := working(t)
	prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	first, second := podOf("a", "/run/netns/first"), podOf("a", "/run/netns/second")
	second.Id = "a-second"
	for _, pod := range []*api.PodSandbox{first, second} {
		if err := h.RunPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	want := "attach a to /run/netns/first; detach a from /run/netns/first; attach a to /run/netns/second"
	if got := a.actions(nic); got != want {
		t.Errorf("actions %q, want %q", got, want)
	}
}

// renewer is a driver with a lease.
type renewer struct {
	mu    sync.Mutex
	fails int
	times int
}

func (d *renewer) Renew(_ context.Context, r driver.Record, netns string) (driver.Record, time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.times++
	if netns == "" {
		return r, time.Time{}, errors.New("no namespace")
	}
	if d.fails > 0 {
		d.fails--
		return r, time.Time{}, errors.New("the DHCP server does not answer")
	}
	r.Devices = append([]driver.DeviceRecord{}, r.Devices...)
	r.Devices[0].Plan = []byte(`{"lease":"` + strings.Repeat("i", d.times) + `"}`)
	return r, time.Now().Add(10 * time.Millisecond), nil
}

// partly is given something for the one of two devices, and refused for the other.
type partly struct{}

func (partly) Renew(_ context.Context, r driver.Record, _ string) (driver.Record, time.Time, error) {
	r.Devices = append([]driver.DeviceRecord{}, r.Devices...)
	r.Devices[0].Plan = []byte(`{"lease":"new"}`)
	return r, time.Time{}, errors.New("the other server does not answer")
}

func TestRenewalOfOneOfTwo(t *testing.T) {
	a, _, h, _ := working(t)
	p := a.preparers[0]
	r := prepared(t, p, agenttest.ClaimFor("a", "nic0"))
	if err := h.RunPodSandbox(t.Context(), podOf("a", existing(t))); err != nil {
		t.Fatal(err)
	}
	p.Renewer = partly{}
	if _, err := h.renewNow(t.Context(), keyOf(r)); err == nil {
		t.Error("the failure is not told")
	}
	now, err := p.Journal.Get(r.Driver, r.Claim.UID)
	if err != nil || !strings.Contains(string(now.Devices[0].Plan), "new") {
		t.Errorf("journaled %s, error %v", now.Devices[0].Plan, err)
	}
}

func TestRenewal(t *testing.T) {
	a, _, h, said := working(t)
	lease := &renewer{fails: 1}
	p := a.preparers[0]
	p.Renewer = lease
	r := prepared(t, p, agenttest.ClaimFor("a", "nic0"))
	pod := podOf("a", existing(t))
	if err := h.RunPodSandbox(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "the failure is told", func() bool {
		said.mu.Lock()
		defer said.mu.Unlock()
		return strings.Contains(strings.Join(said.lines, "\n"), "a RenewFailed: the DHCP server does not answer")
	})
	agenttest.Eventually(t, "what was learned is journaled, again and again", func() bool {
		now, err := p.Journal.Get(r.Driver, r.Claim.UID)
		return err == nil && strings.Contains(string(now.Devices[0].Plan), "iii")
	})
	agenttest.Eventually(t, "the claim is ready again", func() bool { return said.last() == "a Attached" })
	if err := h.StopPodSandbox(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	next, err := h.renewNow(t.Context(), keyOf(r))
	if err != nil || !next.IsZero() {
		t.Errorf("renewed %v, %v after the pod has stopped", next, err)
	}
}

// A runtime that restarted reports nothing of what went with it.
func TestSynchronizeForgetsWhatWent(t *testing.T) {
	n := newPinnedNode(t)
	a := n.agent(t)
	var assignments []pinning.Container
	for _, id := range []string{"stays", "went"} {
		n.write(t, groupOf(id)+"/cpuset.cpus", "")
		n.write(t, groupOf(id)+"/cpuset.mems", "")
		n.write(t, groupOf(id)+"/cgroup.procs", "")
		assignments = append(assignments, pinning.Container{ID: id, Group: groupOf(id)})
	}
	if out := a.placer.Place(assignments, cpuset.New(0, 1), true); out.Writes != 2 {
		t.Fatalf("%+v", out)
	}
	running := &api.Container{Id: "stays", PodSandboxId: "stays-sandbox", Linux: &api.LinuxContainer{CgroupsPath: groupOf("stays")}}
	if _, err := a.Synchronize(t.Context(), []*api.PodSandbox{podOf("stays", "")}, []*api.Container{running}); err != nil {
		t.Fatal(err)
	}
	_, stays := a.placer.Placed("stays")
	if _, went := a.placer.Placed("went"); went || !stays {
		t.Errorf("the container that stays is known: %t; that went: %t", stays, went)
	}
}
