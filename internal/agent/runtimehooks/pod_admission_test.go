// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/cdi"
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

// A pod in the host's network may have what stays there: a claim that only looks at
// its devices, or an RDMA device that all share.
func TestHostNetworkWhereNothingMoves(t *testing.T) {
	a, nic := connected(t, "/nowhere")
	said := &told{}
	a.preparers[0].Status = said.set
	claim := agenttest.ClaimFor("a", "nic0")
	claim.Devices[0].AdminAccess = true
	prepared(t, a.preparers[0], claim)
	h := a.hooks()
	h.pods = podsOf(t, podWith("a", "a"))
	if err := h.RunPodSandbox(t.Context(), podOf("a", "")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.CreateContainer(t.Context(), podOf("a", ""), &api.Container{Id: "c", Name: "main"}); err != nil {
		t.Error(err)
	}
	if err := h.StopPodSandbox(t.Context(), podOf("a", "")); err != nil {
		t.Error(err)
	}
	if got := a.actions(nic); strings.Contains(got, "attach a to") {
		t.Errorf("actions %q, want nothing attached", got)
	}
	if got := said.last(); got != "a Prepared" {
		t.Errorf("the claim says %q, want it ready", got)
	}
}

// What the runtime listed when the agent connected ran before, and goes on starting
// containers while the API server shows nothing. A sandbox that comes later does
// not, and neither does one that was refused.
func TestContainerOfAPodThatRanBefore(t *testing.T) {
	a, _ := connected(t, "/nowhere")
	prepared(t, a.preparers[0], agenttest.ClaimFor("a", "nic0"))
	h := a.hooks()
	before, later := podOf("before", "/run/netns/before"), podOf("later", "/run/netns/later")
	if _, err := h.Synchronize(t.Context(), []*api.PodSandbox{before}, nil); err != nil {
		t.Fatal(err)
	}
	create := func(pod *api.PodSandbox) error {
		_, _, err := h.CreateContainer(t.Context(), pod, &api.Container{Id: "c", PodSandboxId: pod.Id, Name: "main"})
		return err
	}
	if err := create(before); err != nil {
		t.Errorf("a container of a pod that ran before: %v", err)
	}
	again := podOf("before", "/run/netns/again")
	again.Id = "another-sandbox"
	for _, pod := range []*api.PodSandbox{later, again} {
		refused := "the API server has not shown it"
		if err := h.RunPodSandbox(t.Context(), pod); err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("sandbox %s: got %v, want it refused", pod.Id, err)
		}
		if err := create(pod); err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("a container of sandbox %s: got %v, want it refused", pod.Id, err)
		}
	}
	if err := h.RemovePodSandbox(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if err := create(before); err == nil {
		t.Error("a container of a sandbox that is gone is created")
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
				h.state.RemoveSandbox(podOf("first", "").GetId())
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

// The same for CPUs, which are in no namespace: the second pod's container runs on
// them, whether it names the claim or only its pod does.
func TestSecondPodOfACPUClaim(t *testing.T) {
	for name, named := range map[string]bool{"its container names the claim": true, "only the pod does": false} {
		for _, firstPath := range []string{"", existing(t)} { // in the host's network, and in its own
			t.Run(name+", first in "+firstPath, func(t *testing.T) {
				a, _ := connected(t, "/nowhere")
				h := a.hooks()
				h.pods = podsOf(t, podWith("first", "a"), podWith("second", "a"))
				claim := agenttest.ClaimFor("a", "cpudevnuma001")
				claim.Pods = []driver.PodRef{{UID: "first-pod", Name: "first"}}
				r := prepared(t, a.preparers[1], claim)
				first, second := podOf("first", firstPath), podOf("second", existing(t))
				container := &api.Container{Id: "c", Name: "main"}
				if named {
					container.CDIDevices = []*api.CDIDevice{{Name: cdi.ID(r, 0)}}
				}
				if err := h.RunPodSandbox(t.Context(), first); err != nil {
					t.Fatal(err)
				}
				const held = "claim default/a of dra.cpu is held by pod first"
				for _, step := range []func(){
					func() {},
					func() { h.pods = podsOf(t, podWith("second", "a")) }, // deleted by force, and its sandbox is there
				} {
					step()
					if err := h.RunPodSandbox(t.Context(), second); err == nil || !strings.Contains(err.Error(), held) {
						t.Errorf("sandbox: got %v, want %q", err, held)
					}
					if _, _, err := h.CreateContainer(t.Context(), second, container); err == nil || !strings.Contains(err.Error(), held) {
						t.Errorf("container: got %v, want %q", err, held)
					}
				}
				if err := h.StopPodSandbox(t.Context(), first); err != nil {
					t.Fatal(err)
				}
				if err := h.RunPodSandbox(t.Context(), second); err != nil {
					t.Fatal(err)
				}
				adjustment, _, err := h.CreateContainer(t.Context(), second, container)
				if err != nil {
					t.Fatal(err)
				}
				if set := adjustment.GetLinux().GetResources().GetCpu().GetCpus(); set != "4-7" {
					t.Errorf("the container runs on CPUs %q, want 4-7", set)
				}
				now, err := a.preparers[1].Journal.Get("dra.cpu", "a-uid")
				if err != nil || len(now.Pods) != 1 || now.Pods[0].Name != "second" {
					t.Errorf("the claim is of %+v, error %v; want the second pod", now.Pods, err)
				}
			})
		}
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

// rdmaNIC is a driver of whose devices some reach into a process's memory: rdma0 and so on.
type rdmaNIC struct{ *agenttest.FakeDriver }

func (rdmaNIC) MemlockFor(r driver.Record) bool {
	return slices.ContainsFunc(r.Devices, func(d driver.DeviceRecord) bool { return strings.HasPrefix(d.Device, "rdma") })
}

// RDMA needs memory that stays in place. A limit that somebody has set, an agent
// before this one among them, stays.
func TestLockedMemory(t *testing.T) {
	a, nic := connected(t, "/nowhere")
	a.preparers[0].MemoryLocker = rdmaNIC{nic}
	r := prepared(t, a.preparers[0], agenttest.ClaimFor("a", "rdma0"))
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

// Of the containers of one pod only those are given memory to lock that name the RDMA
// device, not those that name another device of its claim, or none.
func TestLockedMemoryOfTheContainerWithTheDevice(t *testing.T) {
	a, nic := connected(t, "/nowhere")
	a.preparers[0].MemoryLocker = rdmaNIC{nic}
	claim := agenttest.ClaimFor("a", "rdma0")
	claim.Devices = append(claim.Devices, driver.Allocation{Request: "s", Pool: "node", Device: "nic0"})
	r := prepared(t, a.preparers[0], claim)
	h := a.hooks()
	h.pods = podsOf(t, podNaming("a", "a"))
	for _, test := range []struct {
		container *api.Container
		raised    bool
	}{
		{naming("both", r, 0, 1), true},
		{naming("rdma", r, 0), true},
		{naming("plain", r, 1), false},
		{naming("none", r), false},
	} {
		adjustment, _, err := h.CreateContainer(t.Context(), podOf("a", "/run/netns/a"), test.container)
		if err != nil {
			t.Fatal(err)
		}
		if raised := len(adjustment.GetRlimits()) == 1; raised != test.raised {
			t.Errorf("container %s: limits %v, want raised %t", test.container.GetName(), adjustment.GetRlimits(), test.raised)
		}
	}
}
