// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
)

// node is what survives an agent: its directories.
type node struct {
	t           *testing.T
	journal     *journal.Journal
	journalPath string
	cdiPath     string
	bootID      string
	statuses    map[types.UID][]status.DeviceState
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{t: t, journalPath: filepath.Join(dir, "journal"), cdiPath: filepath.Join(dir, "cdi"), bootID: "first-boot", statuses: map[types.UID][]status.DeviceState{}}
	return n
}

// start is an agent's start: it opens the directories and recovers.
func (n *node) start(d *agenttest.FakeDriver) *Preparer {
	n.t.Helper()
	records, err := journal.Open(n.journalPath)
	if err != nil {
		n.t.Fatal(err)
	}
	n.journal = records
	specs, err := cdi.Open(n.cdiPath)
	if err != nil {
		n.t.Fatal(err)
	}
	var mu sync.Mutex
	p := &Preparer{
		Driver: Driver{Planner: d, Attacher: d}, Journal: records, CDI: specs, BootID: n.bootID,
		Machine: func() *model.Machine { return &model.Machine{} }, RuntimeReady: func() error { return nil },
		Namespaces: agenttest.NoNamespaces{}, Changed: func() {},
		Status: func(r status.Report) {
			mu.Lock()
			defer mu.Unlock()
			n.statuses[r.Claim.UID] = r.Devices
		},
	}
	if err := p.Recover(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	return p
}

// specs lists the claims with a CDI spec.
func (n *node) specs(p *Preparer) string {
	n.t.Helper()
	uids, err := p.CDI.Claims(p.Name())
	if err != nil {
		n.t.Fatal(err)
	}
	slices.Sort(uids)
	var words []string
	for _, uid := range uids {
		words = append(words, string(uid))
	}
	return strings.Join(words, " ")
}

func TestPrepareTwiceIsOnce(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.start(d)
	first, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0"))
	if err != nil {
		t.Fatal(err)
	}
	// The kubelet asks again, also of the next agent.
	second, err := n.start(d).Prepare(t.Context(), agenttest.ClaimFor("a", "nic0"))
	if err != nil {
		t.Fatal(err)
	}
	if d.Plans != 1 || !reflect.DeepEqual(first, second) {
		t.Errorf("%d plans, answers %+v and %+v; want one plan and one answer", d.Plans, first, second)
	}
}

func TestUnprepareTwiceAndAfterDeletion(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.start(d)
	if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err != nil {
		t.Fatal(err)
	}
	byUID := driver.ClaimRef{UID: "a-uid", Namespace: "default", Name: "a"}
	for range 2 {
		if err := n.start(d).Unprepare(t.Context(), byUID); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Unprepare(t.Context(), driver.ClaimRef{UID: "never-seen", Namespace: "default", Name: "x"}); err != nil {
		t.Errorf("a claim that was never prepared: %v", err)
	}
	if got := strings.Join(d.Actions, "; "); got != "detach a from " {
		t.Errorf("actions %q, want one detach", got)
	}
	if got := n.specs(p); got != "" {
		t.Errorf("CDI specs of %s are left", got)
	}
	if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("b", "nic0")); err != nil {
		t.Errorf("the device is not free again: %v", err)
	}
}

// What a claim says of a refusal ends with its pod, also where nothing was ever
// prepared: the claim may live on, and nobody else would forget it.
func TestUnprepareOfARefusedClaim(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.start(d)
	p.RuntimeReady = func() error { return errors.New("not connected") }
	if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err == nil || len(n.statuses["a-uid"]) != 1 {
		t.Fatalf("error %v, status %+v", err, n.statuses["a-uid"])
	}
	if err := p.Unprepare(t.Context(), driver.ClaimRef{UID: "a-uid", Namespace: "default", Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if said, ok := n.statuses["a-uid"]; !ok || len(said) > 0 {
		t.Errorf("the claim still says %+v", said)
	}
}

func TestPrepareRefusesWithoutTheRuntime(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.start(d)
	p.RuntimeReady = func() error { return errors.New("the container runtime is not connected") }
	_, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0"))
	want := "prepare claim default/a for dra.net: the container runtime is not connected"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if d.Plans != 0 || n.specs(p) != "" {
		t.Errorf("%d plans, CDI specs %q; want nothing done", d.Plans, n.specs(p))
	}
	if s := n.statuses["a-uid"]; len(s) != 1 || !errors.Is(s[0].Err, err) {
		t.Errorf("claim status %+v, want the refusal", s)
	}
}

// A driver whose device is in the CDI file alone needs no hook.
func TestPrepareWithoutTheRuntimeWhereNoHookIsNeeded(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "gpu.nvidia.com"}
	p := n.start(d)
	p.Driver = Driver{Planner: d}
	p.RuntimeReady = func() error { return errors.New("nobody asks") }
	if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "gpu-0")); err != nil {
		t.Error(err)
	}
	if s := n.statuses["a-uid"]; len(s) != 1 || s[0].Err != nil {
		t.Errorf("claim status %+v, want Ready", s)
	}
}

// killedAfterJournal leaves what a process leaves that dies between the journal
// and the CDI file.
func TestKilledAfterTheJournal(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.start(d)
	if _, err := p.record(t.Context(), agenttest.ClaimFor("a", "nic0")); err != nil {
		t.Fatal(err)
	}
	if got := n.specs(p); got != "" {
		t.Fatalf("CDI specs %q before the crash", got)
	}
	next := n.start(d)
	if got := n.specs(next); got != "a-uid" {
		t.Errorf("after the restart there are CDI specs of %q, want a-uid", got)
	}
	if _, err := next.Prepare(t.Context(), agenttest.ClaimFor("b", "nic0")); err == nil {
		t.Error("the device went to a second claim")
	}
	if _, err := next.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err != nil || d.Plans != 2 {
		t.Errorf("prepare again: %v after %d plans; want the journaled answer", err, d.Plans)
	}
}

func TestKilledAfterTheSpec(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.start(d)
	if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err != nil {
		t.Fatal(err)
	}
	// The kubelet never heard of it, and the pod was deleted meanwhile: there
	// is an Unprepare all the same.
	next := n.start(d)
	if err := next.Unprepare(t.Context(), agenttest.ClaimFor("a", "nic0").ClaimRef); err != nil {
		t.Fatal(err)
	}
	if got := n.specs(next); got != "" {
		t.Errorf("CDI specs of %s are left", got)
	}
}

// An unprepare that dies after the CDI file is repeated; one that died before
// the journal's end leaves a spec that nobody owns when the record goes.
func TestKilledWithinUnprepare(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.start(d)
	for _, name := range []string{"a", "b"} {
		if _, err := p.Prepare(t.Context(), agenttest.ClaimFor(name, "nic-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.journal.Delete("dra.net", "a-uid"); err != nil { // only a spec is left of a
		t.Fatal(err)
	}
	if err := p.CDI.Remove("dra.net", "b-uid"); err != nil { // only a record is left of b
		t.Fatal(err)
	}
	next := n.start(d)
	if got := n.specs(next); got != "b-uid" {
		t.Errorf("CDI specs of %q, want b-uid", got)
	}
	if err := next.Unprepare(t.Context(), agenttest.ClaimFor("b", "nic-b").ClaimRef); err != nil {
		t.Error(err)
	}
}

func TestRebootPlansAgain(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	if _, err := n.start(d).Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err != nil {
		t.Fatal(err)
	}
	n.bootID = "second-boot"
	p := n.start(d)
	r, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0"))
	if err != nil {
		t.Fatal(err)
	}
	if r.BootID != "second-boot" || d.Plans != 2 || len(d.Actions) > 0 {
		t.Errorf("boot %s, %d plans, actions %v; want a new plan and nothing undone", r.BootID, d.Plans, d.Actions)
	}
}

// A claim whose pod went while the node was down holds nothing: its devices may be
// another's before the kubelet says so.
func TestRebootFreesWhatNobodyPreparesAgain(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	if _, err := n.start(d).Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err != nil {
		t.Fatal(err)
	}
	n.bootID = "second-boot"
	p := n.start(d)
	if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("b", "nic0")); err != nil {
		t.Error(err)
	}
	if err := p.Unprepare(t.Context(), agenttest.ClaimFor("a", "nic0").ClaimRef); err != nil || len(d.Actions) > 0 {
		t.Errorf("error %v, actions %v; want the first claim forgotten, and nothing undone", err, d.Actions)
	}
}

// beforePlanner writes down of which claims it is shown records of earlier boots.
type beforePlanner struct {
	*agenttest.FakeDriver
	shown []string
}

func (d *beforePlanner) Plan(c driver.Claim, m *model.Machine, held []driver.Record) (driver.Record, error) {
	d.shown = nil
	for _, r := range c.Before {
		d.shown = append(d.shown, r.Claim.Name)
	}
	return d.FakeDriver.Plan(c, m, held)
}

// What claims have until they end, drivers see in records of earlier boots, the claim's own
// among them, until it is prepared again or unprepared.
func TestRebootShowsWhatClaimsHad(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	for _, name := range []string{"a", "b"} {
		mustPrepare(t, n.start(d), agenttest.ClaimFor(name, "nic-"+name))
	}
	n.bootID = "second-boot"
	p := n.start(d)
	planner := &beforePlanner{FakeDriver: d}
	p.Planner = planner
	for _, step := range []struct{ prepared, want string }{{"c", "a b"}, {"a", "a b"}, {"d", "b"}} {
		mustPrepare(t, p, agenttest.ClaimFor(step.prepared, "nic-"+step.prepared))
		if got := strings.Join(planner.shown, " "); got != step.want {
			t.Errorf("claim %s is planned beside records of %q, want %q", step.prepared, got, step.want)
		}
	}
	if err := p.Unprepare(t.Context(), agenttest.ClaimFor("b", "nic-b").ClaimRef); err != nil {
		t.Fatal(err)
	}
	mustPrepare(t, p, agenttest.ClaimFor("e", "nic-e"))
	if len(planner.shown) > 0 {
		t.Errorf("after its claim has ended a record of %q is shown", planner.shown)
	}
}

func TestNewAllocationOfThePreparedClaim(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.start(d)
	if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err != nil {
		t.Fatal(err)
	}
	r, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic1"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Devices[0].Device != "nic1" || strings.Join(d.Actions, "; ") != "detach a from " {
		t.Errorf("got %s after %v; want nic1 after the old one came back", r.Devices[0].Device, d.Actions)
	}
}

// What an unreadable record holds is not known: its own claim is neither prepared
// nor unprepared, and no part of a device is given away. Whole devices are the
// scheduler's to give, and one bad file must not stop a node.
func TestUnreadableRecord(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.start(d)
	if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(n.journalPath, "dra.net", "a-uid.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	next := n.start(d)
	if got := n.specs(next); got != "a-uid" {
		t.Errorf("CDI specs of %q, want those that were there", got)
	}
	share, id := agenttest.ClaimFor("part", "nic1"), types.UID("share")
	share.Devices[0].ShareID = &id
	for _, c := range []driver.Claim{share, agenttest.ClaimFor("a", "nic0")} {
		if _, err := next.Prepare(t.Context(), c); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("prepare %s: got %v, want a refusal that names %s", c.Name, err, path)
		}
	}
	if _, err := next.Prepare(t.Context(), agenttest.ClaimFor("b", "nic1")); err != nil {
		t.Errorf("prepare a claim of another device: %v", err)
	}
	if err := next.Unprepare(t.Context(), agenttest.ClaimFor("a", "nic0").ClaimRef); err == nil {
		t.Error("unprepare lost the record that says how to bring the NIC back")
	}
}

// A claim may be reserved for several pods, and the kubelet does not say for which
// it asks. What goes into a namespace is one pod's, and stays so.
func TestClaimOfSeveralPods(t *testing.T) {
	pod := func(name string) driver.PodRef { return driver.PodRef{UID: types.UID(name + "-pod"), Name: name} }
	a, b, c := pod("a"), pod("b"), pod("c")
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.start(d)
	claim := agenttest.ClaimFor("a", "nic0")
	for _, step := range []struct {
		what string
		pods []driver.PodRef
		want driver.PodRef
	}{
		{"both at once", []driver.PodRef{a, b}, a},
		{"after a restart of the kubelet, in another order", []driver.PodRef{b, a}, a},
		{"the first one has gone", []driver.PodRef{b, c}, b},
	} {
		claim.Pods = step.pods
		r, err := p.Prepare(t.Context(), claim)
		if err != nil || len(r.Pods) != 1 || r.Pods[0] != step.want {
			t.Errorf("%s: held by %v, %v; want %v", step.what, r.Pods, err, step.want)
		}
	}
	p.Driver = Driver{Planner: d} // what is in no namespace, several pods can use
	claim = agenttest.ClaimFor("cpus", "cpu0")
	claim.Pods = []driver.PodRef{a, b}
	if r, err := p.Prepare(t.Context(), claim); err != nil || len(r.Pods) != 2 {
		t.Errorf("held by %v, %v; want both", r.Pods, err)
	}
}

// A claim that names no pod yet is prepared like any other: what answers "prepared"
// has journaled its devices and written its CDI spec.
func TestClaimReservedForNobody(t *testing.T) {
	n := newNode(t)
	p := n.start(&agenttest.FakeDriver{DriverName: "dra.net"})
	claim := agenttest.ClaimFor("a", "nic0")
	claim.Pods = nil
	r, err := p.Prepare(t.Context(), claim)
	if err != nil || len(r.Devices) != 1 || n.specs(p) != "a-uid" {
		t.Fatalf("record %+v, specs %q, %v", r, n.specs(p), err)
	}
	if _, err := n.journal.Get("dra.net", "a-uid"); err != nil {
		t.Error(err)
	}
}

func TestFailedDetachKeepsTheRecord(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.start(d)
	if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err != nil {
		t.Fatal(err)
	}
	d.Refuse = errors.New("device or resource busy")
	if err := p.Unprepare(t.Context(), agenttest.ClaimFor("a", "nic0").ClaimRef); err == nil {
		t.Error("want the error")
	}
	if _, err := n.journal.Get("dra.net", "a-uid"); err != nil {
		t.Errorf("the record: %v", err)
	}
	d.Refuse = nil
	if err := p.Unprepare(t.Context(), agenttest.ClaimFor("a", "nic0").ClaimRef); err != nil {
		t.Error(err)
	}
	if _, err := n.journal.Get("dra.net", "a-uid"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record: %v, want none", err)
	}
}

// Many claims at once, some for the same device: one of each wins.
func TestConcurrentPrepare(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.start(d)
	won := make([]bool, 24)
	var group sync.WaitGroup
	for i := range won {
		group.Go(func() {
			c := agenttest.ClaimFor("c"+string(rune('a'+i)), "nic"+string(rune('a'+i%8)))
			_, err := p.Prepare(t.Context(), c)
			won[i] = err == nil
		})
	}
	group.Wait()
	for nic := range 8 {
		count := 0
		for i := nic; i < len(won); i += 8 {
			if won[i] {
				count++
			}
		}
		if count != 1 {
			t.Errorf("device %d went to %d claims", nic, count)
		}
	}
}
