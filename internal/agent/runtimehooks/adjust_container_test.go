// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"testing"

	"github.com/containerd/nri/pkg/api"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
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
	out, err := h.place(t.Context(), a.state.Running(), false)
	if err != nil || len(out.updates) != 1 || out.updates[0].GetContainerId() != "late" || out.updates[0].GetLinux().GetResources().GetCpu().GetCpus() != "0-7" {
		t.Errorf("updates %v, %v; want late alone, on 0-7", out.updates, err)
	}
}
