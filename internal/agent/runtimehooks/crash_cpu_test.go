// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
)

// The test runs itself with these, as an agent to be killed.
var (
	cpuCrashStep = flag.String("cpu-crash-step", "", "the step after which the process kills itself")
	cpuCrashDir  = flag.String("cpu-crash-dir", "", "the node's directories, and its control groups")
)

// others are containers that run on the node all the time.
var others = []string{"early", "beside", "late"}

func crashedNode(t *testing.T, dir string) *pinnedNode {
	t.Helper()
	n := &pinnedNode{dir: filepath.Join(dir, "state"), groups: filepath.Join(dir, "groups"), machine: agenttest.TwoNodes(t)}
	n.write(t, "cgroup.controllers", "cpuset cpu")
	pod := podOf("other", "/run/netns/other")
	n.pods, n.shown = append(n.pods, pod), append(n.shown, podNaming("other"), podNaming("a", "a"))
	for _, id := range others {
		n.containers = append(n.containers, &api.Container{
			Id: id, Name: id, PodSandboxId: pod.Id, State: api.ContainerState_CONTAINER_RUNNING, Linux: &api.LinuxContainer{CgroupsPath: groupOf(id)},
		})
	}
	return n
}

// begun is an agent that knows what runs.
func (n *pinnedNode) begun(t *testing.T) *pinnedAgent {
	t.Helper()
	a := n.agent(t)
	a.pods = podsOf(t, n.shown...)
	if _, err := a.Synchronize(t.Context(), n.pods, n.containers); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestCPUAgentToBeKilled is the process that kills itself.
func TestCPUAgentToBeKilled(t *testing.T) {
	if *cpuCrashStep == "" {
		t.Skip("runs as a process of TestCPUAgentKilledAfterEveryStep only")
	}
	n := crashedNode(t, *cpuCrashDir)
	a := n.begun(t)
	a.claims.OnStep = func(s claims.Step) {
		if string(s) == *cpuCrashStep {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	claim := cpusFor("a", 2)
	a.prepare(t, claim)
	if err := a.claims.Unprepare(t.Context(), claim.ClaimRef); err != nil {
		t.Fatal(err)
	}
	t.Fatalf("the step %q never came", *cpuCrashStep)
}

// An agent killed after any step leaves what the next one puts right: a journaled
// claim has its CPUs to itself before its container starts, one that has gone has
// left them to everybody, and nobody is given them twice.
func TestCPUAgentKilledAfterEveryStep(t *testing.T) {
	absent := []claims.Step{claims.StepStaged, claims.StepStageJournaled, claims.StepAttached, claims.StepDetached, claims.StepUnstaged}
	kills := 0
	for _, step := range claims.Steps() {
		if slices.Contains(absent, step) {
			continue // the CPU driver has no such work
		}
		kills++
		t.Run(string(step), func(t *testing.T) {
			dir := t.TempDir()
			n := crashedNode(t, dir)
			for _, id := range others {
				n.write(t, groupOf(id)+"/cpuset.cpus", "")
				n.write(t, groupOf(id)+"/cpuset.mems", "")
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCPUAgentToBeKilled$", "-cpu-crash-step="+string(step), "-cpu-crash-dir="+dir)
			out, err := cmd.CombinedOutput()
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
				t.Fatalf("the agent ended with %v, want it killed:\n%s", err, out)
			}
			a := n.begun(t)
			records, _, err := a.claims.Journal.List("dra.cpu")
			if err != nil {
				t.Fatal(err)
			}
			n.judge(t, a, records)
			// Another claim takes none of its CPUs, and the first one, asked for
			// again, has those it had.
			second := a.prepare(t, cpusFor("b", 2))
			claim := cpusFor("a", 2)
			first := a.prepare(t, claim)
			if len(records) > 0 && string(first.Devices[0].Plan) != string(records[0].Devices[0].Plan) {
				t.Errorf("asked again, the claim has %s, and had %s", first.Devices[0].Plan, records[0].Devices[0].Plan)
			}
			n.judge(t, a, []driver.Record{first, second})
			for _, r := range []driver.Record{first, second} {
				if err := a.claims.Unprepare(t.Context(), r.Claim); err != nil {
					t.Fatal(err)
				}
			}
			n.judge(t, a, nil)
			specs, err := cdi.Open(filepath.Join(n.dir, "cdi"))
			if err != nil {
				t.Fatal(err)
			}
			if left, err := specs.Claims("dra.cpu"); err != nil || len(left) > 0 {
				t.Errorf("CDI specs of %v, %v are left", left, err)
			}
		})
	}
	t.Logf("%d agents killed: 0 claims without their CPUs, 0 CPUs given twice, 0 containers left confined", kills)
}

// judge compares where the others are with what these records leave.
func (n *pinnedNode) judge(t *testing.T, a *pinnedAgent, records []driver.Record) {
	t.Helper()
	want := ""
	if len(records) > 0 {
		pin, err := a.claims.Pinner.Shared(n.machine, records)
		if err != nil {
			t.Fatal(err)
		}
		want = pin.CPUs.String()
		both, err := a.claims.Pinner.Exclusive(records)
		if err != nil || both.CPUs.Size() != 2*len(records) {
			t.Errorf("%d claims have CPUs %s, %v; want two each", len(records), both.CPUs, err)
		}
	}
	for _, id := range others {
		if got := n.where(t, id); got != want {
			t.Errorf("with %d claims %s is on %q, want %q", len(records), id, got, want)
		}
	}
}
