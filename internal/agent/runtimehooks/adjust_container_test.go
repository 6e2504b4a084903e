// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/pinning"
	"plumbline.dev/plumbline/internal/agent/podclaims"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/driver"
)

// Under the kubelet's static CPU policy a container may come with a cpuset of
// its own. Without a claim, that is nobody's business here.
func TestKubeletsCPUSetIsNotWidened(t *testing.T) {
	a, _ := connected(t, "/nowhere")
	h := a.hooks()
	h.pods = podsOf(t, podWith("b"))
	pod := podOf("b", "/run/netns/b")
	container := func(id, cpus string) *api.Container {
		c := &api.Container{Id: id, PodSandboxId: pod.Id, Name: id, State: api.ContainerState_CONTAINER_RUNNING}
		c.Linux = &api.LinuxContainer{Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: cpus}}}
		return c
	}
	adjustment, _, err := h.CreateContainer(t.Context(), pod, container("static", "2-3"))
	if err != nil || adjustment != nil {
		t.Errorf("create: %v, %v; want it left alone", adjustment, err)
	}
	pods, known := []*api.PodSandbox{pod}, []*api.Container{container("static", "2-3")}
	updates, err := h.Synchronize(t.Context(), pods, known)
	if err != nil || len(updates) != 0 {
		t.Errorf("synchronise: %v, %v; want it left alone", updates, err)
	}

	// What is created while a claim holds CPUs is confined by us, and set free
	// even when the claim goes before anyone has looked again.
	claim := agenttest.ClaimFor("a", "cpudevnuma001")
	prepared(t, a.preparers[1], claim)
	adjustment, _, err = h.CreateContainer(t.Context(), pod, container("late", ""))
	if cpus := adjustment.GetLinux().GetResources().GetCpu().GetCpus(); err != nil || cpus != "0-3" {
		t.Errorf("create beside a claim: CPUs %q, %v; want 0-3", cpus, err)
	}
	a.state.SetContainer(runtimestate.Running{Sandbox: runtimestate.SandboxOf(pod), Container: runtimestate.ContainerOf(container("late", ""))})
	if err := a.preparers[1].Journal.Delete("dra.cpu", claim.UID); err != nil {
		t.Fatal(err)
	}
	a.state.Placed("late", "0-3", "")
	runtime := &fakeRuntime{}
	h.pins = pinning.NewReconciler(pinning.Options{Preparers: a.preparers, State: a.state, Pods: &h.pods, Runtime: runtime})
	err = h.pins.Settle(t.Context(), false)
	if u := runtime.updates; err != nil || len(u) != 1 || u[0].GetContainerId() != "late" || u[0].GetLinux().GetResources().GetCpu().GetCpus() != "0-7" {
		t.Errorf("updates %v, %v; want late alone, on 0-7", u, err)
	}
}

func TestAdjustAddsOnlyWhatIsMissing(t *testing.T) {
	nic := agenttest.RecordOf("dra.net", "nic", "trainer-uid", "nic0")
	shares := []podclaims.Share{{Record: nic, Devices: []int{0}, PodLevel: true}}
	pin := driver.Pin{CPUs: cpuset.New(2, 3), Mems: cpuset.New(0), Env: []string{"DRA_CPUSET_x=2-3"}}
	fresh := runtimestate.Container{Env: []string{"HOME=/"}}
	none := ""
	first := adjust(fresh, shares, pin)
	want := change{
		Env: []string{"PLUMBLINE_CLAIM_nic-uid_0=dra.net/nic0", "DRA_CPUSET_x=2-3"},
		CDI: []string{"dra.net/claim=nic-uid-nic0"}, CPUs: "2-3", Mems: "0", RequestedCPUs: &none,
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the first agent (-want +got):\n%s", diff)
	}
	// The runtime shows the second agent what the first has added; setting
	// anything twice would fail the container.
	seen := runtimestate.Container{Env: append(fresh.Env, first.Env...), CPUs: first.CPUs, Mems: first.Mems}
	if second := adjust(seen, shares, pin); adjustmentOf(second) != nil {
		t.Errorf("the second agent adds %+v, want nothing", second)
	}
}

// fakeRuntime moves containers in name only.
type fakeRuntime struct {
	updates []*api.ContainerUpdate
	// refuses is what updates are answered with; nil: they are taken.
	refuses error
	repins  int
}

func (f *fakeRuntime) UpdateContainers(updates []*api.ContainerUpdate) error {
	f.updates = updates
	return f.refuses
}

func (f *fakeRuntime) Repin() { f.repins++ }
