// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"math"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/driver"
)

// The API server may be away, and static pods are never in its list: a pod that
// nobody knows is refused only where it could take what another one holds.
func TestPodsThatTheAPIWatchDoesNotShow(t *testing.T) {
	static := func(p *api.PodSandbox) {
		p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	}
	fromAPI := func(p *api.PodSandbox) {
		p.Annotations = map[string]string{"kubernetes.io/config.source": "api"}
	}
	for _, test := range []struct {
		name, pod, netns string
		change           func(*api.PodSandbox)
		held             bool
		admitted         bool
	}{
		{"whose claim the journal has", "a", "/run/netns/a", fromAPI, true, true},
		{"of the node itself", "static", "/run/netns/static", static, true, true},
		{"in the host's network", "proxy", "", fromAPI, true, true},
		{"while nothing is held", "other", "/run/netns/other", fromAPI, false, true},
		{"which may use the claim that is held", "other", "/run/netns/other", fromAPI, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, _ := connected(t, "/nowhere")
			if test.held {
				prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
			}
			pod := podOf(test.pod, test.netns)
			test.change(pod)
			err := a.hooks().RunPodSandbox(t.Context(), pod)
			if test.admitted != (err == nil) || err != nil && !strings.Contains(err.Error(), "the API server has not shown it") {
				t.Errorf("got %v, want admitted %t", err, test.admitted)
			}
		})
	}
}

// A second pod of a claim is refused while the first is there, and gets the claim
// when the first has gone: the kubelet prepares it no second time.
func TestSecondPodOfAClaim(t *testing.T) {
	first, second := podWith("first", "a"), podWith("second", "a")
	ended := podWith("first", "a")
	ended.Status.Phase = corev1.PodSucceeded
	for _, test := range []struct {
		name    string
		shown   []*corev1.Pod
		runs    bool // the first one's sandbox is there
		refusal string
	}{
		{"the first one runs", []*corev1.Pod{first, second}, true, "claim default/a of dra.net is held by pod first"},
		{"it was deleted by force, and its sandbox is there", []*corev1.Pod{second}, true, "claim default/a of dra.net is held by pod first"},
		{"it may yet run", []*corev1.Pod{first, second}, false, "claim default/a of dra.net is held by pod first"},
		{"it has gone", []*corev1.Pod{second}, false, ""},
		{"it has ended", []*corev1.Pod{ended, second}, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, nic := connected(t, "/nowhere")
			h := a.hooks()
			h.pods = podsOf(t, test.shown...)
			claim := agenttest.ClaimFor("a", "nic0")
			claim.Pods = []driver.PodRef{{UID: "first-pod", Name: "first"}}
			prepared(t, a.preparers[0], claim)
			firstPath, secondPath := existing(t), existing(t)
			if err := h.RunPodSandbox(t.Context(), podOf("first", firstPath)); err != nil {
				t.Fatal(err)
			}
			if !test.runs {
				h.state.removeSandbox(podOf("first", "").GetId())
			}
			for range 2 { // asked again, as the kubelet does
				err := h.RunPodSandbox(t.Context(), podOf("second", secondPath))
				if (test.refusal == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.refusal) {
					t.Fatalf("got %v, want %q", err, test.refusal)
				}
			}
			want := "attach a to " + firstPath
			if test.refusal == "" {
				want += "; detach a from " + firstPath + "; attach a to " + secondPath + "; attach a to " + secondPath
			}
			if got := a.actions(nic); got != want {
				t.Errorf("actions %q, want %q", got, want)
			}
		})
	}
}

// A claim was deleted, and made anew under its name, before the devices of the
// first one are back: the new one's pod gets what the new one holds.
func TestNewClaimOfAnOldName(t *testing.T) {
	a, nic := connected(t, "/nowhere")
	h := a.hooks()
	h.pods = podsOf(t, podWith("a", "a"))
	before := agenttest.ClaimFor("a", "nic0")
	before.UID, before.Pods = "older-uid", []driver.PodRef{{UID: "gone-pod", Name: "gone"}}
	prepared(t, a.preparers[0], before)
	prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic1"))
	path := existing(t)
	if err := h.RunPodSandbox(t.Context(), podOf("a", path)); err != nil {
		t.Fatal(err)
	}
	if got, want := a.actions(nic), "attach a to "+path; got != want {
		t.Errorf("actions %q, want %q", got, want)
	}
	if old, err := a.preparers[0].Journal.Get("dra.net", "older-uid"); err != nil || old.Pods[0].UID != "gone-pod" {
		t.Errorf("the older claim is of %+v, error %v", old.Pods, err)
	}
}

// rdmaNIC is a driver whose devices reach into a process's memory.
type rdmaNIC struct{ *agenttest.FakeDriver }

func (rdmaNIC) MemlockFor(driver.Record) bool { return true }

// RDMA needs memory that stays in place. A limit that somebody has set, an agent
// before this one among them, stays.
func TestLockedMemory(t *testing.T) {
	a, nic := connected(t, "/nowhere")
	a.preparers[0].MemoryLocker = rdmaNIC{nic}
	r := prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	h := a.hooks()
	h.pods = podsOf(t, podWith("a", "a"), podWith("b"))
	limit := []*api.POSIXRlimit{{Type: "RLIMIT_MEMLOCK", Hard: 1 << 30, Soft: 1 << 30}}
	for _, test := range []struct {
		name      string
		pod       string
		container *api.Container
		raised    bool
	}{
		{"a pod that only holds the claim", "a", &api.Container{}, true},
		{"a limit is set", "a", &api.Container{Rlimits: limit}, false},
		{"another pod", "b", &api.Container{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			adjustment, _, err := h.CreateContainer(t.Context(), podOf(test.pod, "/run/netns/"+test.pod), test.container)
			if err != nil {
				t.Fatal(err)
			}
			limits := adjustment.GetRlimits()
			if raised := len(limits) == 1 && limits[0].GetType() == "RLIMIT_MEMLOCK" && limits[0].GetHard() == math.MaxUint64; raised != test.raised {
				t.Errorf("limits %v, want raised %t", limits, test.raised)
			}
			if got, want := len(adjustment.GetCDIDevices()), map[string]int{"a": len(r.Devices)}[test.pod]; got != want {
				t.Errorf("%d CDI devices, want %d: every container of a pod that only holds the claim has its devices", got, want)
			}
		})
	}
}
