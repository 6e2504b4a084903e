// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/pinning"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
)

// longAgo is when files were last written that nobody writes.
var longAgo = time.Unix(1_000_000_000, 0)

// pinnedNode is a node that outlives its agents: directories, a tree that looks
// like control groups, and a runtime that writes a container's first set there as
// the OCI runtime does.
type pinnedNode struct {
	dir, groups string
	machine     *model.Machine
	pods        []*api.PodSandbox
	shown       []*corev1.Pod
	containers  []*api.Container
}

func newPinnedNode(t testing.TB) *pinnedNode {
	t.Helper()
	n := &pinnedNode{dir: t.TempDir(), groups: t.TempDir(), machine: agenttest.TwoNodes(t)}
	n.write(t, "cgroup.controllers", "cpuset cpu")
	return n
}

func (n *pinnedNode) write(t testing.TB, path, text string) {
	t.Helper()
	path = filepath.Join(n.groups, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// where is the set of a container's group.
func (n *pinnedNode) where(t testing.TB, id string) string {
	t.Helper()
	var words []string
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		text, err := os.ReadFile(filepath.Join(n.groups, groupOf(id), name))
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, strings.TrimSpace(string(text)))
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

func groupOf(id string) string { return "/kubepods/burstable/pod/" + id }

// pinnedAgent is an agent on such a node.
type pinnedAgent struct {
	*hooks
	runtime *fakeRuntime
	placer  *pinning.Placer
	claims  *claims.Preparer
	told    map[string]status.Report
}

// agent starts one; the one before it is dead.
func (n *pinnedNode) agent(t testing.TB) *pinnedAgent {
	t.Helper()
	placer, err := pinning.Open(n.groups)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = placer.Close() })
	records, err := journal.Open(filepath.Join(n.dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	specs, err := cdi.Open(filepath.Join(n.dir, "cdi"))
	if err != nil {
		t.Fatal(err)
	}
	r := New("/nowhere")
	a := &pinnedAgent{runtime: &fakeRuntime{}, placer: placer, told: map[string]status.Report{}}
	a.claims = &claims.Preparer{
		Driver: claims.Of(cpu.Driver{}), Journal: records, CDI: specs, BootID: "boot", Machine: func() *model.Machine { return n.machine },
		RuntimeReady: func() error { return nil }, Namespaces: agenttest.NoNamespaces{}, Changed: func() {},
		Status: func(r status.Report) { a.told[r.Claim.Name] = r },
	}
	a.hooks = r.hooks(Options{Preparers: []*claims.Preparer{a.claims}})
	a.pins = pinning.NewReconciler(pinning.Options{
		Preparers: a.preparers, State: a.state, Pods: &a.pods, Runtime: a.runtime, Placer: placer,
	})
	a.claims.Confine = func(ctx context.Context) error { return a.pins.Settle(ctx, false) }
	a.deadline = func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }
	return a
}

// start has the runtime make a container and start it, with what the hooks say.
func (n *pinnedNode) start(t testing.TB, a *pinnedAgent, pod *api.PodSandbox, c *api.Container) error {
	t.Helper()
	c.PodSandboxId, c.State = pod.Id, api.ContainerState_CONTAINER_RUNNING
	c.Linux = &api.LinuxContainer{CgroupsPath: groupOf(c.Id), Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{}}}
	adjustment, _, err := a.CreateContainer(t.Context(), pod, c)
	if err != nil {
		return err
	}
	given := adjustment.GetLinux().GetResources().GetCpu()
	c.Linux.Resources.Cpu.Cpus, c.Linux.Resources.Cpu.Mems = given.GetCpus(), given.GetMems()
	for _, env := range adjustment.GetEnv() {
		c.Env = append(c.Env, env.GetKey()+"="+env.GetValue())
	}
	c.Annotations = adjustment.GetAnnotations()
	n.write(t, groupOf(c.Id)+"/cpuset.cpus", given.GetCpus())
	n.write(t, groupOf(c.Id)+"/cpuset.mems", given.GetMems())
	if err := a.StartContainer(t.Context(), pod, c); err != nil {
		return err
	}
	n.containers = append(n.containers, c)
	return nil
}

func (n *pinnedNode) mustStart(t testing.TB, a *pinnedAgent, pod *api.PodSandbox, c *api.Container) {
	t.Helper()
	if err := n.start(t, a, pod, c); err != nil {
		t.Fatalf("start %s: %v", c.Id, err)
	}
}

// pod makes a pod with a container that names its claims, and shows it to the
// agent.
func (n *pinnedNode) pod(t testing.TB, a *pinnedAgent, name string, claims ...string) *api.PodSandbox {
	t.Helper()
	p := podOf(name, "/run/netns/"+name)
	n.pods = append(n.pods, p)
	n.shown = append(n.shown, podNaming(name, claims...))
	a.pods = podsOf(t, n.shown...)
	return p
}

func podNaming(name string, claims ...string) *corev1.Pod {
	p := podWith(name, claims...)
	c := corev1.Container{Name: "main"}
	for _, claim := range claims {
		c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: claim})
	}
	p.Spec.Containers = []corev1.Container{c}
	return p
}

func cpusFor(name string, cpus int, requests ...string) driver.Claim {
	c := agenttest.ClaimFor(name, "cpudevnuma001")
	c.Devices = nil
	if len(requests) == 0 {
		requests = []string{"r"}
	}
	for _, r := range requests {
		c.Devices = append(c.Devices, driver.Allocation{
			Request: r, Pool: "node", Device: "cpudevnuma001", Consumed: map[string]resource.Quantity{"dra.cpu/cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI)},
		})
	}
	return c
}

func (a *pinnedAgent) prepare(t testing.TB, c driver.Claim) driver.Record {
	t.Helper()
	r, err := a.claims.Prepare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// naming is a container that names devices of a record.
func naming(id string, r driver.Record, devices ...int) *api.Container {
	c := &api.Container{Id: id, Name: id}
	for _, i := range devices {
		c.CDIDevices = append(c.CDIDevices, &api.CDIDevice{Name: cdi.ID(r, i)})
		c.Env = append(c.Env, r.Devices[i].Edits.Env...)
	}
	return c
}

func plain(id string) *api.Container { return &api.Container{Id: id, Name: id} }

// See how everybody moves as claims come and go.
func TestOthersGiveWayBeforePrepareAnswers(t *testing.T) {
	n := newPinnedNode(t)
	a := n.agent(t)
	other := n.pod(t, a, "other")
	n.mustStart(t, a, other, plain("early"))
	if got := n.where(t, "early"); got != "" {
		t.Errorf("without claims early is on %q, want it left alone", got)
	}
	r := a.prepare(t, cpusFor("a", 2))
	if got := n.where(t, "early"); got != "0-3,6-7" {
		t.Errorf("when Prepare has answered early is on %q, want 0-3,6-7", got)
	}
	n.mustStart(t, a, n.pod(t, a, "a", "a"), naming("own", r, 0))
	n.mustStart(t, a, other, plain("late"))
	second := a.prepare(t, cpusFor("b", 1))
	n.mustStart(t, a, n.pod(t, a, "b", "b"), naming("second", second, 0))
	for id, want := range map[string]string{"own": "4-5 1", "second": "6 1", "early": "0-3,7", "late": "0-3,7"} {
		if got := n.where(t, id); got != want {
			t.Errorf("%s is on %q, want %q", id, got, want)
		}
	}
	for _, c := range []string{"a", "b"} {
		if err := a.claims.Unprepare(t.Context(), cpusFor(c, 1).ClaimRef); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"early", "late"} {
		if got := n.where(t, id); got != "" {
			t.Errorf("after the claims %s is on %q, want it free", id, got)
		}
	}
}

// A claim may be prepared while the runtime makes a container that it was told to
// put on the CPUs of before.
func TestContainerMadeWhileAClaimCame(t *testing.T) {
	n := newPinnedNode(t)
	a := n.agent(t)
	pod := n.pod(t, a, "other")
	c := plain("slow")
	c.PodSandboxId = pod.Id
	c.Linux = &api.LinuxContainer{CgroupsPath: groupOf(c.Id)}
	if adjustment, _, err := a.CreateContainer(t.Context(), pod, c); err != nil || adjustment != nil {
		t.Fatalf("create: %v, %v", adjustment, err)
	}
	a.prepare(t, cpusFor("a", 2))
	n.write(t, groupOf(c.Id)+"/cpuset.cpus", "")
	n.write(t, groupOf(c.Id)+"/cpuset.mems", "")
	if err := a.StartContainer(t.Context(), pod, c); err != nil {
		t.Fatal(err)
	}
	if got := n.where(t, "slow"); got != "0-3,6-7" {
		t.Errorf("it starts on %q, want 0-3,6-7", got)
	}
}

// Containers of a pod share a claim in turn and at once; those that name
// different requests have their own.
func TestContainersOfOnePod(t *testing.T) {
	n := newPinnedNode(t)
	a := n.agent(t)
	pod := n.pod(t, a, "a", "a", "b")
	one := a.prepare(t, cpusFor("a", 1))
	two := cpusFor("b", 1, "main", "helper")
	two.Pods = cpusFor("a", 1).Pods
	r := a.prepare(t, two)
	for _, test := range []struct {
		c         *api.Container
		want, env string
	}{
		{naming("init", one, 0), "4 1", "DRA_CPUSET_a-uid=4"},
		{naming("main", one, 0), "4 1", "DRA_CPUSET_a-uid=4"},
		{naming("beside", one, 0), "4 1", "DRA_CPUSET_a-uid=4"},
		{naming("first", r, 0), "5 1", "DRA_CPUSET_b-uid=5"},
		{naming("second", r, 1), "6 1", "DRA_CPUSET_b-uid=6"},
		{naming("both", r, 0, 1), "5-6 1", "DRA_CPUSET_b-uid=5-6"},
		{plain("neither"), "0-3,7", ""},
	} {
		n.mustStart(t, a, pod, test.c)
		got := n.where(t, test.c.Id)
		env := strings.Join(slices.DeleteFunc(slices.Clone(test.c.Env), func(e string) bool { return !strings.HasPrefix(e, "DRA_") }), " ")
		if got != test.want || env != test.env {
			t.Errorf("%s is on %q with %q, want %q with %q", test.c.Id, got, env, test.want, test.env)
		}
	}
}

// What runs stays where it is when the agent, the runtime or the kubelet starts
// anew, whatever was prepared meanwhile.
func TestRestartsMoveNobody(t *testing.T) {
	n := newPinnedNode(t)
	a := n.agent(t)
	other := n.pod(t, a, "other")
	n.mustStart(t, a, other, plain("early"))
	claim := cpusFor("a", 2)
	r := a.prepare(t, claim)
	n.mustStart(t, a, n.pod(t, a, "a", "a"), naming("own", r, 0))
	n.mustStart(t, a, other, plain("late"))
	absent := cpusFor("absent", 1) // its container is yet to come
	a.prepare(t, absent)
	want := map[string]string{"early": "0-3,7", "late": "0-3,7", "own": "4-5 1"}

	restarts := map[string]func() *pinnedAgent{
		"the agent":   func() *pinnedAgent { return n.agent(t) },
		"the runtime": func() *pinnedAgent { return a },
		"the kubelet": func() *pinnedAgent {
			for _, c := range []driver.Claim{absent, claim} { // asks anew, in another order
				a.prepare(t, c)
			}
			return a
		},
	}
	for _, what := range []string{"the agent", "the runtime", "the kubelet", "the agent"} {
		a = restarts[what]()
		a.pods = podsOf(t, n.shown...)
		for id := range want {
			// A file that is written, even with the same, is younger.
			mark(t, filepath.Join(n.groups, groupOf(id), "cpuset.cpus"))
		}
		updates, err := a.Synchronize(t.Context(), n.pods, n.containers)
		if err != nil || len(updates) > 0 {
			t.Errorf("%s: %v, %v; want no update", what, updates, err)
		}
		for id, set := range want {
			if got := n.where(t, id); got != set {
				t.Errorf("%s: %s is on %q, want %q", what, id, got, set)
			}
			unwritten(t, filepath.Join(n.groups, groupOf(id), "cpuset.cpus"))
		}
	}
	// And the claim that had no container yet still has its CPU.
	n.mustStart(t, a, n.pod(t, a, "absent", "absent"), naming("at last", a.prepare(t, absent), 0))
	if got := n.where(t, "at last"); got != "6 1" {
		t.Errorf("it is on %q, want 6 1", got)
	}
}

// mark gives a file a time of long ago, so that a write shows.
func mark(t *testing.T, path string) {
	t.Helper()
	if err := os.Chtimes(path, longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
}

func unwritten(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || !info.ModTime().Equal(longAgo) {
		t.Errorf("%s was written (%v)", path, err)
	}
}

// An update of other resources brings everything back that the runtime remembers
// of the container.
func TestUpdatesOfOthersMoveNobody(t *testing.T) {
	n := newPinnedNode(t)
	a := n.agent(t)
	other := n.pod(t, a, "other")
	n.mustStart(t, a, other, plain("free"))
	a.prepare(t, cpusFor("a", 1))
	n.mustStart(t, a, other, plain("confined")) // made on 0-3,5-7
	r := a.prepare(t, cpusFor("b", 1))
	pod := n.pod(t, a, "b", "b")
	n.mustStart(t, a, pod, naming("own", r, 0))
	for _, test := range []struct{ id, asked, want string }{
		{"free", "", "0-3,6-7"},
		{"confined", "", "0-3,6-7"},
		{"own", "", "5 1"},
		{"own", "0-7", "5 1"},
		{"free", "2-5", "2-3"},
		{"confined", "0-3,6-7", ""},
	} {
		at := slices.IndexFunc(n.containers, func(c *api.Container) bool { return c.Id == test.id })
		c := n.containers[at]
		sandbox := other
		if test.id == "own" {
			sandbox = pod
		}
		updates, err := a.UpdateContainer(t.Context(), sandbox, c, &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: test.asked}})
		var got string
		if len(updates) == 1 {
			cpu := updates[0].GetLinux().GetResources().GetCpu()
			got = strings.TrimSpace(cpu.GetCpus() + " " + cpu.GetMems())
		}
		if err != nil || len(updates) > 1 || got != test.want {
			t.Errorf("%s asked for %q: %q, %v; want %q", test.id, test.asked, got, err, test.want)
		}
		// Whatever was written is looked at.
		n.write(t, groupOf(test.id)+"/cpuset.cpus", "0-7")
		if err := a.PostUpdateContainer(t.Context(), sandbox, c); err != nil {
			t.Fatal(err)
		}
		if got := n.where(t, test.id); got == "0-7" {
			t.Errorf("%s is on %q after the update", test.id, got)
		}
	}
	for _, c := range []string{"a", "b"} {
		if err := a.claims.Unprepare(t.Context(), cpusFor(c, 1).ClaimRef); err != nil {
			t.Fatal(err)
		}
	}
	// Made while a claim held CPUs, updated when none does.
	at := slices.IndexFunc(n.containers, func(c *api.Container) bool { return c.Id == "confined" })
	updates, err := a.UpdateContainer(t.Context(), other, n.containers[at], &api.LinuxResources{})
	if err != nil || len(updates) != 1 || updates[0].GetLinux().GetResources().GetCpu().GetCpus() != "0-7" {
		t.Errorf("updates %v, %v; want the whole machine", updates, err)
	}
}

// A holder that cannot be put on its CPUs does not start; others do, and the
// runtime is asked to move them.
func TestGroupThatCannotBeWritten(t *testing.T) {
	n := newPinnedNode(t)
	a := n.agent(t)
	r := a.prepare(t, cpusFor("a", 2))
	hopeless := func(pod *api.PodSandbox, c *api.Container) error {
		c.PodSandboxId = pod.Id
		c.Linux = &api.LinuxContainer{CgroupsPath: groupOf(c.Id)}
		n.write(t, groupOf(c.Id)+"/cgroup.procs", "") // a group without the controller
		return a.StartContainer(t.Context(), pod, c)
	}
	if err := hopeless(n.pod(t, a, "a", "a"), naming("own", r, 0)); err == nil || !strings.Contains(err.Error(), "default/a, container own is not on CPUs 4-5") {
		t.Errorf("the holder: %v, want a refusal", err)
	}
	if err := hopeless(n.pod(t, a, "other"), plain("other")); err != nil || a.runtime.repins == 0 {
		t.Errorf("another: %v, %d repins; want it started, and a repin", err, a.runtime.repins)
	}
	if _, err := a.claims.Prepare(t.Context(), cpusFor("b", 1)); err != nil {
		t.Errorf("prepare, with the runtime's help: %v", err)
	}
	if len(a.runtime.updates) != 2 {
		t.Errorf("the runtime was to make the updates %v, want both", a.runtime.updates)
	}
	a.runtime.refuses = os.ErrPermission
	if _, err := a.claims.Prepare(t.Context(), cpusFor("c", 1)); err == nil || !strings.Contains(err.Error(), "other containers still run where it does") {
		t.Errorf("prepare, without it: %v, want a refusal", err)
	}
}

// Two records of one CPU, from a journal that somebody has restored: nothing
// crashes, nobody moves, nobody else gets the CPUs, nobody starts on them, and
// both claims say so.
func TestQuarantine(t *testing.T) {
	n := newPinnedNode(t)
	a := n.agent(t)
	first := a.prepare(t, cpusFor("a", 2))
	pod := n.pod(t, a, "a", "a")
	n.mustStart(t, a, pod, naming("own", first, 0))
	other := n.pod(t, a, "other")
	n.mustStart(t, a, other, plain("other"))
	twin := first
	twin.Claim, twin.Pods = cpusFor("b", 2).ClaimRef, cpusFor("b", 2).Pods
	if err := a.claims.Journal.Put(twin); err != nil {
		t.Fatal(err)
	}
	a = n.agent(t)
	a.pods = podsOf(t, append(n.shown, podNaming("b", "b"))...)
	updates, err := a.Synchronize(t.Context(), n.pods, n.containers)
	if err != nil || len(updates) > 0 {
		t.Fatalf("%v, %v", updates, err)
	}
	for id, want := range map[string]string{"own": "4-5 1", "other": "0-3,6-7"} {
		if got := n.where(t, id); got != want {
			t.Errorf("%s is on %q, want %q", id, got, want)
		}
	}
	for _, claim := range []string{"a", "b"} {
		d := a.told[claim].Devices
		if len(d) != 1 || d[0].Reason != status.Quarantined || d[0].Err == nil || !strings.Contains(d[0].Err.Error(), "so 4-5 would be used by both") {
			t.Errorf("claim %s says %+v", claim, d)
		}
	}
	if err := n.start(t, a, podOf("b", "/run/netns/b"), naming("twin", twin, 0)); err == nil || !strings.Contains(err.Error(), "quarantined") {
		t.Errorf("a container on the CPUs of two claims: %v, want a refusal", err)
	}
	if r := a.prepare(t, cpusFor("c", 2)); !strings.Contains(string(r.Devices[0].Plan), `"6-7"`) {
		t.Errorf("a third claim got %s, want 6-7", r.Devices[0].Plan)
	}
	// One of the two goes, and the other is as good as ever.
	if err := a.claims.Unprepare(t.Context(), twin.Claim); err != nil {
		t.Fatal(err)
	}
	n.mustStart(t, a, pod, naming("again", first, 0))
	if got := n.where(t, "again"); got != "4-5 1" {
		t.Errorf("again is on %q, want 4-5 1", got)
	}
	if d := a.told["a"].Devices; len(d) != 1 || d[0].Err != nil {
		t.Errorf("claim a says %+v, want it ready", d)
	}
}

func TestQuarantineOfWhatTheMachineLost(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*model.Machine)
		want   string
	}{
		"offline":   {func(m *model.Machine) { m.CPUs[5].Online = false }, "claim default/a has CPUs 4-5, of which 5 are offline or gone: want them online, or the claim's pods deleted"},
		"gone":      {func(m *model.Machine) { m.CPUs = m.CPUs[:5] }, "claim default/a has CPUs 4-5, of which 5 are offline or gone: want them online, or the claim's pods deleted"},
		"elsewhere": {func(m *model.Machine) { zero := 0; m.CPUs[4].NUMANode = &zero }, "claim default/a has CPUs 4-5 beside memory node 1, and CPUs 4 sit elsewhere since the machine's topology changed: want the claim's pods deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newPinnedNode(t)
			a := n.agent(t)
			r := a.prepare(t, cpusFor("a", 2))
			pod := n.pod(t, a, "a", "a")
			n.mustStart(t, a, pod, naming("own", r, 0))
			test.change(n.machine)
			if _, err := a.Synchronize(t.Context(), n.pods, n.containers); err != nil {
				t.Fatal(err)
			}
			if got := n.where(t, "own"); got != "4-5 1" {
				t.Errorf("own is on %q, want it to stay", got)
			}
			if d := a.told["a"].Devices; len(d) != 1 || fmt.Sprint(d[0].Err) != test.want {
				t.Errorf("the claim says %v\nwant %s", d[0].Err, test.want)
			}
		})
	}
}
