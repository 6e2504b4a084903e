// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"errors"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/driver"
)

// again is the pod's next sandbox.
func again(pod *api.PodSandbox, netns string) *api.PodSandbox {
	next := podOf(pod.GetName(), netns)
	next.Id += "-again"
	return next
}

// What was to be done for a sandbox that has ended comes when the pod, or another
// one by then, has the claim's device in a new sandbox: it stays there.
func TestLateWorkLeavesTheNewSandbox(t *testing.T) {
	for _, test := range []struct {
		name string
		late func(t *testing.T, h *hooks, r driver.Record, old *api.PodSandbox)
	}{
		{"the stop of the old one", func(t *testing.T, h *hooks, _ driver.Record, old *api.PodSandbox) {
			if err := h.StopPodSandbox(t.Context(), old); err != nil {
				t.Error(err)
			}
		}},
		{"a repair that found no sandbox", func(t *testing.T, h *hooks, r driver.Record, _ *api.PodSandbox) {
			if back, err := h.detach(t.Context(), r, runtimestate.Sandbox{}); back || err != nil {
				t.Errorf("brought back %t, %v", back, err)
			}
		}},
		{"the attach to the old one", func(t *testing.T, h *hooks, r driver.Record, old *api.PodSandbox) {
			if err := h.attach(t.Context(), r, runtimestate.SandboxOf(old), false); !errors.Is(err, errOutlived) {
				t.Errorf("got %v, want errOutlived", err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, nic, h, _ := working(t)
			r := prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
			old := podOf("a", "/run/netns/old") // which the runtime has removed
			if err := h.RunPodSandbox(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			h.state.RemoveSandbox(old.GetId())
			path := existing(t)
			if err := h.RunPodSandbox(t.Context(), again(old, path)); err != nil {
				t.Fatal(err)
			}
			test.late(t, h, r, old)
			want := "attach a to /run/netns/old; detach a from /run/netns/old; attach a to " + path
			if got := a.actions(nic); got != want {
				t.Errorf("actions %q, want %q", got, want)
			}
			if got := a.namespaces.Of(r); got != path {
				t.Errorf("held in %q, want %q", got, path)
			}
			// The end of the new one is no less its end.
			if err := h.StopPodSandbox(t.Context(), again(old, path)); err != nil {
				t.Fatal(err)
			}
			if got := a.actions(nic); got != want+"; detach a from "+path {
				t.Errorf("actions %q, want the device brought back at last", got)
			}
		})
	}
}

// The claim has gone to another pod.
func TestLateStopOfThePodBefore(t *testing.T) {
	a, nic, h, _ := working(t)
	h.pods = podsOf(t, podWith("second", "a"))
	claim := agenttest.ClaimFor("a", "nic0")
	claim.Pods = []driver.PodRef{{UID: "first-pod", Name: "first"}}
	r := prepared(t, a.preparers[0], claim)
	first := podOf("first", "/run/netns/first")
	if err := h.RunPodSandbox(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	path := existing(t)
	if err := h.RunPodSandbox(t.Context(), podOf("second", path)); err != nil {
		t.Fatal(err)
	}
	want := "attach a to /run/netns/first; detach a from /run/netns/first; attach a to " + path
	// The hook chose the record while it was the first pod's.
	if back, err := h.detach(t.Context(), r, runtimestate.SandboxOf(first)); back || err != nil {
		t.Errorf("brought back %t, %v", back, err)
	}
	if err := h.attach(t.Context(), r, runtimestate.SandboxOf(first), false); !errors.Is(err, errOutlived) {
		t.Errorf("attach: got %v, want errOutlived", err)
	}
	if got := a.actions(nic); got != want {
		t.Errorf("actions %q, want %q", got, want)
	}
}

// An agent that has just begun holds no namespace, and where the agent before it
// has left the device is for the repair to find out.
func TestLateStopWhileNothingIsHeld(t *testing.T) {
	a, nic, h, _ := working(t)
	prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	old, path := podOf("a", "/run/netns/old"), existing(t)
	h.state.AddSandbox(again(old, path).GetId(), runtimestate.SandboxOf(again(old, path)))
	if err := h.StopPodSandbox(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "it is attached", func() bool { return a.actions(nic) == "attach a to "+path })
}

// upgrading are two agents on one journal, which both hold the first sandbox's
// namespace, as during an upgrade. The NIC is where the last of them attached it.
func upgrading(t *testing.T) (first, second *hooks, nic *agenttest.FakeDriver, said *told) {
	t.Helper()
	a, nic, first, said := working(t)
	b, stop := startAgent(t, "/nowhere", t.TempDir(), nic)
	t.Cleanup(stop)
	second = b.hooks()
	b.preparers[0].Journal, b.preparers[0].Status = a.preparers[0].Journal, said.set
	missing := func(_ driver.Record, netns string) ([]string, error) {
		nic.Mu.Lock()
		defer nic.Mu.Unlock()
		if last := nic.Actions[len(nic.Actions)-1]; last == "attach a to "+netns {
			return nil, nil
		}
		return []string{"device nic0 of claim default/a is not in the pod's network namespace"}, nil
	}
	a.preparers[0].Missing, b.preparers[0].Missing = missing, missing
	prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	return first, second, nic, said
}

// The pod has a new sandbox, and nobody said that the old one is gone. The agent that
// is asked first brings the device over; the other must not look for it in the old
// one, where a NIC that is on neither side is waited for, or taken for lost.
func TestSecondAgentFollowsTheFirst(t *testing.T) {
	for name, late := range map[string]func(h *hooks, old, now *api.PodSandbox) error{
		"the new sandbox": func(h *hooks, _, now *api.PodSandbox) error { return h.RunPodSandbox(t.Context(), now) },
		"the old sandbox's stop, late": func(h *hooks, old, now *api.PodSandbox) error {
			h.state.AddSandbox(now.GetId(), runtimestate.SandboxOf(now))
			return h.StopPodSandbox(t.Context(), old)
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, second, nic, said := upgrading(t)
			old := podOf("a", "/run/netns/old")
			now := again(old, existing(t))
			for _, h := range []*hooks{first, second} {
				if err := h.RunPodSandbox(t.Context(), old); err != nil {
					t.Fatal(err)
				}
			}
			if err := first.RunPodSandbox(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			if err := late(second, old, now); err != nil {
				t.Fatal(err)
			}
			nic.Mu.Lock()
			defer nic.Mu.Unlock()
			if got := strings.Count(strings.Join(nic.Actions, "; "), "detach"); got != 1 {
				t.Errorf("actions %q, want the device brought back once, by the first agent", nic.Actions)
			}
			if got := said.last(); got != "a Attached" {
				t.Errorf("the claim says %q, want Attached", got)
			}
		})
	}
}

// What ended with its namespace is not back on the host, and the claim does not say
// so; nobody tries for ever, and the record stays until the claim is unprepared.
func TestGoneIsNotRestored(t *testing.T) {
	a, nic, h, said := working(t)
	r := prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	if err := h.RunPodSandbox(t.Context(), podOf("a", "/run/netns/a")); err != nil {
		t.Fatal(err)
	}
	h.state.RemoveSandbox("a-sandbox")
	setRefuse(nic, driver.GoneError{Err: errors.New("nic0 is on neither side")})
	if err := h.repairNow(t.Context(), keyOf(r)); err != nil {
		t.Errorf("got %v, want no more tries", err)
	}
	if got := said.last(); got != "a RestoreFailed: nic0 is on neither side" {
		t.Errorf("the claim says %q, want that the NIC is gone", got)
	}
	if got := a.namespaces.Of(r); got != "" {
		t.Errorf("%s is still held", got)
	}
	p := a.preparers[0]
	if _, err := p.Journal.Get(r.Driver, r.Claim.UID); err != nil {
		t.Errorf("the record: %v, want it kept", err)
	}
	if err := p.Unprepare(t.Context(), r.Claim); err != nil {
		t.Errorf("unprepare: %v, want what is gone to be in nobody's way", err)
	}
}
