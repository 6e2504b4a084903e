// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu"
	"plumbline.dev/plumbline/internal/model"
)

// inTime runs a test with an agent that waits for releases, in a time of its own.
func inTime(t *testing.T, test func(t *testing.T, n *node, p *Preparer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		test(t, n, waiting(n))
	})
}

func waiting(n *node) *Preparer {
	p := n.start(&agenttest.FakeDriver{DriverName: "dra.net"})
	p.ReleaseAtMost = ReleaseAtMost
	return p
}

func mustPrepare(t *testing.T, p *Preparer, c driver.Claim) {
	t.Helper()
	if _, err := p.Prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// after does something a time from now, beside the test.
func after(t *testing.T, wait time.Duration, do func() error) {
	t.Helper()
	go func() {
		time.Sleep(wait)
		if err := do(); err != nil {
			t.Error(err)
		}
	}()
}

// A pod deleted without grace has its devices for some seconds more, and the
// scheduler has given them away: the next pod waits for them, and no longer.
func TestPrepareWaitsForTheRelease(t *testing.T) {
	const ends, atOnce = 3500 * time.Millisecond, 100 * time.Millisecond
	for _, test := range []struct {
		name   string
		device string
		serve  func(t *testing.T, p *Preparer)
		within time.Duration
		free   func(n *node, p *Preparer) *Preparer // who unprepares
	}{
		{"a NIC", "nic0", nil, atOnce, nil},
		{"CPUs", "cpudevnuma000", func(t *testing.T, p *Preparer) {
			m := fourCPUs(t)
			p.Driver, p.Machine = Of(cpu.Driver{}), func() *model.Machine { return m }
		}, atOnce, nil},
		{"by another agent", "nic0", nil, lookForRelease, func(n *node, _ *Preparer) *Preparer { return waiting(n) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inTime(t, func(t *testing.T, n *node, p *Preparer) {
				if test.serve != nil {
					test.serve(t, p)
				}
				before, next := agenttest.ClaimFor("before", test.device), agenttest.ClaimFor("next", test.device)
				for _, c := range []driver.Claim{before, next} {
					c.Devices[0].Consumed = map[string]resource.Quantity{"dra.cpu/cpu": resource.MustParse("3")}
				}
				mustPrepare(t, p, before)
				releasing := p
				if test.free != nil {
					releasing = test.free(n, p)
				}
				after(t, ends, func() error { return releasing.Unprepare(t.Context(), before.ClaimRef) })
				start := time.Now()
				mustPrepare(t, p, next)
				if waited := time.Since(start); waited < ends || waited > ends+test.within {
					t.Errorf("waited %s for what came free after %s", waited, ends)
				}
				synctest.Wait() // for the unprepare to have told everything
				if s := n.statuses["next-uid"]; len(s) > 0 && s[0].Err != nil {
					t.Errorf("the claim says %v", s[0].Err)
				}
			})
		})
	}
}

// Who waits says so, since nobody else may ask for what a gone claim holds.
func TestWaitingIsTold(t *testing.T) {
	inTime(t, func(t *testing.T, _ *node, p *Preparer) {
		before := agenttest.ClaimFor("before", "nic0")
		mustPrepare(t, p, before)
		p.Waits = func() { go func() { _ = p.Unprepare(context.WithoutCancel(t.Context()), before.ClaimRef) }() }
		start := time.Now()
		mustPrepare(t, p, agenttest.ClaimFor("next", "nic0"))
		if waited := time.Since(start); waited > 0 {
			t.Errorf("waited %s for what is given back when somebody waits", waited)
		}
		synctest.Wait()
	})
}

// What does not come free is refused in time for the kubelet to hear it, in the
// words that say who has it.
func TestWaitForTheReleaseEnds(t *testing.T) {
	for name, test := range map[string]struct {
		call, waits time.Duration
	}{
		"by itself":                  {time.Hour, ReleaseAtMost},
		"before the kubelet's limit": {answerReserve + 4*time.Second, 4 * time.Second},
		"without a wait":             {answerReserve - time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, n *node, p *Preparer) {
				mustPrepare(t, p, agenttest.ClaimFor("before", "nic0"))
				ctx, cancel := context.WithTimeout(t.Context(), test.call)
				defer cancel()
				start := time.Now()
				_, err := p.Prepare(ctx, agenttest.ClaimFor("next", "nic0"))
				if err == nil || !strings.Contains(err.Error(), "nic0 is held by default/before") {
					t.Errorf("got %v, want who holds it", err)
				}
				if waited := time.Since(start); waited != test.waits {
					t.Errorf("refused after %s, want %s", waited, test.waits)
				}
				if s := n.statuses["next-uid"]; len(s) != 1 || s[0].Err == nil {
					t.Errorf("claim status %+v, want the refusal", s)
				}
			})
		})
	}
}

// Whoever hangs up is not prepared for: its unprepare has come, or never does.
func TestWaitForTheReleaseEndsWithTheCall(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, p *Preparer) {
		before, next := agenttest.ClaimFor("before", "nic0"), agenttest.ClaimFor("next", "nic0")
		mustPrepare(t, p, before)
		ctx, hangUp := context.WithCancel(t.Context())
		after(t, time.Millisecond, func() error {
			hangUp()
			return errors.Join(p.Unprepare(t.Context(), next.ClaimRef), p.Unprepare(t.Context(), before.ClaimRef))
		})
		if _, err := p.Prepare(ctx, next); err == nil {
			t.Error("prepared for nobody")
		}
		synctest.Wait()
		if _, err := n.journal.Get("dra.net", "next-uid"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the record of a claim that nobody waits for: %v", err)
		}
	})
}

// One that waits holds up neither the others of its call, nor anybody by a lock.
func TestWaitForTheReleaseHoldsUpNobody(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, p *Preparer) {
		before := agenttest.ClaimFor("before", "nic0")
		mustPrepare(t, p, before)
		all := []driver.Claim{agenttest.ClaimFor("next", "nic0"), agenttest.ClaimFor("free", "nic1"), agenttest.ClaimFor("too", "nic2")}
		done := make(chan []Prepared)
		go func() { done <- p.PrepareAll(t.Context(), all) }()
		time.Sleep(time.Second / 2) // between two looks
		synctest.Wait()
		for _, c := range all[1:] {
			if _, err := n.journal.Get("dra.net", c.UID); err != nil {
				t.Errorf("claim %s beside one that waits: %v", c.Name, err)
			}
		}
		start := time.Now()
		for _, c := range append(all, before) {
			unlock, err := p.Lock(t.Context(), c.UID)
			if err != nil {
				t.Fatal(err)
			}
			unlock()
		}
		unlock, err := n.journal.LockAllocation(t.Context(), "dra.net")
		if err != nil {
			t.Fatal(err)
		}
		unlock()
		if waited := time.Since(start); waited > 0 {
			t.Errorf("waited %s for locks", waited)
		}
		if err := p.Unprepare(t.Context(), before.ClaimRef); err != nil {
			t.Fatal(err)
		}
		for i, r := range <-done {
			if r.Err != nil || r.Record.Claim.UID != all[i].UID {
				t.Errorf("claim %s: %v of %s", all[i].Name, r.Err, r.Record.Claim)
			}
		}
	})
}

// What no release would mend is refused at once.
func TestNoWaitForWhatDoesNotPass(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, p *Preparer) {
		mustPrepare(t, p, agenttest.ClaimFor("before", "nic0"))
		p.Planner.(*agenttest.FakeDriver).Refuse = errors.New("no such NIC")
		start := time.Now()
		if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("next", "nic0")); err == nil {
			t.Error("prepared")
		}
		if waited := time.Since(start); waited > 0 {
			t.Errorf("waited %s", waited)
		}
	})
}
