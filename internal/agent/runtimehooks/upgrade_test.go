// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
)

// An agent is upgraded while pods come and go: for a while two get every hook,
// and the kubelet asks either. The runtime fails a container for which two
// plugins set the same thing; none fails here, and every container has what its
// claims gave it, whoever was asked.
func TestUpgradeWhilePodsComeAndGo(t *testing.T) {
	quietNRI()
	dir, nic := t.TempDir(), &agenttest.FakeDriver{DriverName: "dra.net"}
	socket := filepath.Join(dir, "nri.sock")
	runtime := &containerRuntime{}
	startRuntime(t, socket, runtime)
	defer runtime.die()

	first, stopFirst := startAgent(t, socket, dir, nic)
	agenttest.Eventually(t, "the first agent serves", func() bool { return first.Ready() == nil })
	u := &upgrade{agents: []*agent{first}}

	const workers, phases = 4, 3
	podsOfPhase := func(phase int) {
		var group sync.WaitGroup
		for worker := range workers {
			group.Go(func() {
				for i := range 5 {
					if err := u.pod(t, runtime, fmt.Sprintf("p%d-%d-%d", phase, worker, i), worker); err != nil {
						t.Errorf("phase %d: %v", phase, err)
					}
				}
			})
		}
		// What happens meanwhile.
		switch phase {
		case 0:
			second, stopSecond := startAgent(t, socket, dir, nic)
			t.Cleanup(stopSecond)
			agenttest.Eventually(t, "the second agent serves", func() bool { return second.Ready() == nil })
			u.set(first, second)
		case 2:
			u.set(u.current()[1])
			stopFirst()
		}
		group.Wait()
	}
	for phase := range phases {
		podsOfPhase(phase)
	}
	left, _, err := first.preparers[0].Journal.List("dra.net")
	if err != nil || len(left) > 0 {
		t.Errorf("left in the journal: %v, %v", left, err)
	}
	nic.Mu.Lock()
	defer nic.Mu.Unlock()
	t.Logf("%d pods while the agent was upgraded, 0 failed, %d requests asked again", workers*phases*5, u.crossed.Load())
	if attached := slices.DeleteFunc(slices.Clone(nic.Actions), func(s string) bool { return !strings.HasPrefix(s, "attach ") }); len(attached) < workers*phases*5 {
		t.Errorf("%d attachments of %d pods", len(attached), workers*phases*5)
	}
}

// upgrade is what the kubelet and the runtime see of it.
type upgrade struct {
	mu     sync.Mutex
	agents []*agent
	// crossed counts the requests that crossed with an agent's leave.
	crossed atomic.Int32
}

func (u *upgrade) set(agents ...*agent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.agents = agents
}

func (u *upgrade) current() []*agent {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.agents
}

// again does what the kubelet does with a request that the runtime failed because
// a plugin left: nothing tells the runtime to ask it no more, so one request can
// cross with its leave.
func (u *upgrade) again(request func() error) error {
	err := request()
	if err != nil && strings.Contains(err.Error(), "ttrpc: closed") {
		u.crossed.Add(1)
		return request()
	}
	return err
}

// pod is a pod's life with a NIC that it only holds and, for one worker, CPUs
// that its container names; the kubelet asks one agent to prepare and another
// to unprepare.
func (u *upgrade) pod(t *testing.T, runtime *containerRuntime, name string, worker int) error {
	kubelet := func(n int) *agent { now := u.current(); return now[n%len(now)] }
	nicClaim := agenttest.ClaimFor(name, fmt.Sprintf("nic%d", worker))
	cpuClaim := agenttest.ClaimFor(name+"-cpus", "cpudevnuma001")
	cpuClaim.Pods = nicClaim.Pods
	record, err := kubelet(worker).preparers[0].Prepare(t.Context(), nicClaim)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	pod := podOf(name, "/run/netns/"+name)
	container := &api.Container{Id: name, PodSandboxId: pod.Id, Name: "main", CDIDevices: []*api.CDIDevice{{Name: cdi.ID(record, 0)}}}
	var cpus driver.Record
	if worker == 0 {
		if cpus, err = kubelet(worker).preparers[1].Prepare(t.Context(), cpuClaim); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		container.CDIDevices = append(container.CDIDevices, &api.CDIDevice{Name: cdi.ID(cpus, 0)})
	}
	if err := u.again(func() error { return runtime.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: pod}) }); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	var answer *api.CreateContainerResponse
	if err := u.again(func() (err error) {
		answer, err = runtime.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: pod, Container: container})
		return err
	}); err != nil {
		return fmt.Errorf("create a container: %w", err)
	}
	if set := answer.GetAdjust().GetLinux().GetResources().GetCpu().GetCpus(); worker == 0 && set != "4-7" {
		return fmt.Errorf("the container of pod %s runs on CPUs %q, want 4-7", name, set)
	}
	if err := u.again(func() error { return runtime.StopPodSandbox(t.Context(), &api.StopPodSandboxRequest{Pod: pod}) }); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	if worker == 0 {
		if err := kubelet(worker + 1).preparers[1].Unprepare(t.Context(), cpuClaim.ClaimRef); err != nil {
			return fmt.Errorf("unprepare: %w", err)
		}
	}
	if err := kubelet(worker + 1).preparers[0].Unprepare(t.Context(), nicClaim.ClaimRef); err != nil {
		return fmt.Errorf("unprepare: %w", err)
	}
	return nil
}
