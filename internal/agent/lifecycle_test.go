// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/publish"
	"plumbline.dev/plumbline/internal/agent/registration"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
)

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		labelled, holds bool
		want            phase
	}{
		{true, false, serving},
		{true, true, serving},
		{false, true, draining},
		{false, false, unregistered},
	} {
		if got := decide(tt.labelled, tt.holds); got != tt.want {
			t.Errorf("labelled %t, claims held %t: %v, want %v", tt.labelled, tt.holds, got, tt.want)
		}
	}
}

// registrations are what a lifecycle did, in order.
type registrations struct {
	mu     sync.Mutex
	did    []string
	rivals int
}

func (r *registrations) add(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.did = append(r.did, what)
}

func (r *registrations) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.did)
}

func (r *registrations) Stop() { r.add("stop") }

func (*registrations) PublishResources(context.Context, resourceslice.DriverResources) error {
	return nil
}

var labelled = map[string]string{"fabric": "rdma"}

// followed is a node on which a driver follows the label fabric=rdma.
type followed struct {
	*registrations
	labels   nodeLabels
	preparer *claims.Preparer
	hasLeft  atomic.Bool
	settled  chan struct{} // closed when the labels have been followed
	end      func()
}

// follow starts an agent on the directory that another may have left.
func follow(t *testing.T, dir string, now map[string]string, rivals int) *followed {
	t.Helper()
	records, err := journal.Open(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	specs, err := cdi.Open(filepath.Join(dir, "cdi"))
	if err != nil {
		t.Fatal(err)
	}
	selector, err := labels.Parse("fabric=rdma")
	if err != nil {
		t.Fatal(err)
	}
	f := &followed{registrations: &registrations{rivals: rivals}, settled: make(chan struct{}), preparer: &claims.Preparer{
		Driver: claims.Driver{Planner: &agenttest.FakeDriver{DriverName: "dra.net"}}, Journal: records, CDI: specs, BootID: "boot",
		Machine: func() *model.Machine { return &model.Machine{} }, Namespaces: agenttest.NoNamespaces{},
		Changed: func() {}, Status: func(status.Report) {},
	}}
	f.labels.set(now)
	publishers := make(chan *publish.Publisher)
	l := &lifecycle{
		node: "n1", preparer: f.preparer, selector: selector, labels: &f.labels, publishers: publishers,
		register: func(context.Context) (publish.Helper, error) {
			if f.rivals > 0 {
				f.rivals--
				return nil, fmt.Errorf("a test: %w", registration.ErrRival)
			}
			f.add("register")
			return f.registrations, nil
		},
		publisher: func(h publish.Helper) *publish.Publisher { return &publish.Publisher{Driver: "dra.net", Helper: h} },
		left:      func() { f.hasLeft.Store(true) },
		waits:     func(error) { f.add("wait") }, settled: sync.OnceFunc(func() { close(f.settled) }), pause: 10 * time.Millisecond,
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := l.run(ctx); err != nil {
			t.Error(err)
		}
	})
	ended.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case p := <-publishers:
				switch {
				case p.Helper == nil: // the loop uses the helper no more, and says nothing
				case p.Withdrawn:
					f.add("withdraw")
				default:
					f.add("offer")
				}
			}
		}
	})
	f.end = func() { cancel(); ended.Wait() }
	t.Cleanup(f.end)
	return f
}

func (f *followed) await(t *testing.T, want ...string) {
	t.Helper()
	agenttest.Eventually(t, fmt.Sprintf("%q", want), func() bool { return slices.Equal(f.all(), want) })
}

func (f *followed) prepare(t *testing.T, c driver.Claim) error {
	t.Helper()
	_, err := f.preparer.Prepare(t.Context(), c)
	return err
}

// The driver of CPUs touches containers that have no claim: where it is not wanted it is
// opened only to end what is held.
func TestDriverOfCPUsIsOpenedWhereItIsWanted(t *testing.T) {
	for name, tt := range map[string]struct {
		driver  string
		offered []string
		file    string
		want    bool
	}{
		"NICs, not offered":             {"dra.net", nil, "", true},
		"CPUs, offered":                 {"dra.cpu", []string{"dra.net", "dra.cpu"}, "", true},
		"CPUs, not offered":             {"dra.cpu", []string{"dra.net"}, "", false},
		"CPUs, a NIC is held":           {"dra.cpu", []string{"dra.net"}, "dra.net/uid.json", false},
		"CPUs, something is held still": {"dra.cpu", []string{"dra.net"}, "dra.cpu/uid.json", true},
	} {
		dir := t.TempDir()
		if tt.file != "" {
			path := filepath.Join(dir, tt.file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("{"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		records, err := journal.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := opens(tt.driver, tt.offered, records); err != nil || got != tt.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tt.want)
		}
	}
}

// Somebody is told when a driver is not served any more, and only then.
func TestDriverThatLeft(t *testing.T) {
	f := follow(t, t.TempDir(), labelled, 0)
	f.await(t, "register", "offer")
	held := agenttest.ClaimFor("held", "nic0")
	if err := f.prepare(t, held); err != nil {
		t.Fatal(err)
	}
	f.labels.set(nil)
	f.await(t, "register", "offer", "withdraw")
	if f.hasLeft.Load() {
		t.Error("left with a claim held")
	}
	if err := f.preparer.Unprepare(t.Context(), held.ClaimRef); err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "that it left", f.hasLeft.Load)
}

// A label that goes and comes back, with a claim held meanwhile.
func TestDriverFollowsItsLabel(t *testing.T) {
	f := follow(t, t.TempDir(), labelled, 0)
	f.await(t, "register", "offer")
	held, late := agenttest.ClaimFor("held", "nic0"), agenttest.ClaimFor("late", "nic1")
	if err := f.prepare(t, held); err != nil {
		t.Fatal(err)
	}
	f.labels.set(nil)
	f.await(t, "register", "offer", "withdraw")
	if err := f.prepare(t, late); err == nil || !strings.Contains(err.Error(), "fabric=rdma") || !strings.Contains(err.Error(), "late") {
		t.Errorf("a new claim: %v, want a refusal with the claim and the label", err)
	}
	if err := f.prepare(t, held); err != nil {
		t.Errorf("the claim that is held, asked for again: %v", err)
	}
	if err := f.preparer.Unprepare(t.Context(), held.ClaimRef); err != nil {
		t.Fatal(err)
	}
	f.await(t, "register", "offer", "withdraw", "stop")
	f.labels.set(labelled)
	f.await(t, "register", "offer", "withdraw", "stop", "register", "offer")
	if err := f.prepare(t, late); err != nil {
		t.Errorf("the label is back, and still: %v", err)
	}
}

// Slices are deleted before the driver leaves the kubelet, also where nothing is held.
func TestSlicesGoBeforeTheRegistration(t *testing.T) {
	f := follow(t, t.TempDir(), labelled, 0)
	f.await(t, "register", "offer")
	f.labels.set(map[string]string{"fabric": "ethernet"})
	f.await(t, "register", "offer", "withdraw", "stop")
}

// An agent that was killed while it drained goes on draining; one with nothing held
// stays away from the kubelet.
func TestKilledWhileItDrained(t *testing.T) {
	dir := t.TempDir()
	held := agenttest.ClaimFor("held", "nic0")
	first := follow(t, dir, labelled, 0)
	if err := first.prepare(t, held); err != nil {
		t.Fatal(err)
	}
	first.end()
	second := follow(t, dir, nil, 0)
	second.await(t, "register", "withdraw")
	if err := second.preparer.Unprepare(t.Context(), held.ClaimRef); err != nil {
		t.Fatal(err)
	}
	second.await(t, "register", "withdraw", "stop")
	second.end()
	third := follow(t, dir, nil, 0)
	<-third.settled
	if err := third.prepare(t, agenttest.ClaimFor("late", "nic1")); err == nil {
		t.Error("a claim is prepared on a node without the label")
	}
	third.await(t)
}

// A rival is waited for, and the label may go meanwhile.
func TestRivalIsWaitedFor(t *testing.T) {
	f := follow(t, t.TempDir(), labelled, 2)
	f.await(t, "wait", "wait", "register", "offer")
}

// Claims that come while the label goes are prepared before, or refused: none is
// left that nobody would unprepare.
func TestClaimsComeWhileTheLabelGoes(t *testing.T) {
	f := follow(t, t.TempDir(), labelled, 0)
	f.await(t, "register", "offer")
	var all sync.WaitGroup
	prepared := make(chan driver.Claim, 32)
	for i := range cap(prepared) {
		all.Go(func() {
			c := agenttest.ClaimFor(fmt.Sprintf("c%d", i), fmt.Sprintf("nic%d", i))
			if f.prepare(t, c) == nil {
				prepared <- c
			}
		})
	}
	f.labels.set(nil)
	all.Wait()
	close(prepared)
	for c := range prepared {
		if slices.Contains(f.all(), "stop") {
			t.Fatal("unregistered while claims are held")
		}
		if err := f.preparer.Unprepare(t.Context(), c.ClaimRef); err != nil {
			t.Fatal(err)
		}
	}
	agenttest.Eventually(t, "the end", func() bool { return slices.Contains(f.all(), "stop") })
}

func TestManagedDRANETIsRecognised(t *testing.T) {
	const google, azure = "cloud.google.com/gke-networking-dra-driver", "kubernetes.azure.com/network-dra"
	for _, tt := range []struct{ label, value, want string }{
		{google, "true", "GKE's managed DRANET serves dra.net on this node, by its label " + google + "=true: take the label off the node pool"},
		{google, "false", ""},
		{google, "", ""},
		{azure, "rdma", "AKS's managed DRANET serves dra.net on this node, by its label " + azure + "=rdma: set the node pool's mode of DRANET to Unmanaged"},
		{azure, "none", ""},
		{"kubernetes.azure.com/mode", "rdma", ""},
	} {
		if got := recognise(labels.Set{tt.label: tt.value}); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("label %s=%s: %q, want %q", tt.label, tt.value, got, tt.want)
		}
	}
}
