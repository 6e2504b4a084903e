// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// The test runs itself with these, as an agent to be killed.
var (
	cpuCrashStep = flag.String("cpu-crash-step", "", "the step after which the process kills itself")
	cpuCrashDir  = flag.String("cpu-crash-dir", "", "the node's directories")
	cpuCrashUndo = flag.Bool("cpu-crash-undo", false, "unprepare, instead of preparing")
)

// cpuMachine has two nodes of cores cores with two threads each.
func cpuMachine(tb testing.TB, cores int) *model.Machine {
	tb.Helper()
	var parts model.Machine
	nodes := make([]cpuset.CPUSet, 2)
	for id := range 4 * cores {
		core := id % (2 * cores)
		node := core / cores
		l3 := core / 8
		parts.CPUs = append(parts.CPUs, model.CPU{
			ID: id, Online: true, NUMANode: &node, L3: &l3, Core: &model.CoreID{Package: node, Core: core % cores},
			Siblings: cpuset.New(core, core+2*cores),
		})
		nodes[node] = nodes[node].Union(cpuset.New(id))
	}
	for id, cpus := range nodes {
		parts.NUMANodes = append(parts.NUMANodes, model.NUMANode{ID: id, CPUs: cpus})
	}
	m, err := model.New(parts)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// cpuAgent is a start of an agent that serves the CPUs of a node whose
// directories lie in dir.
func cpuAgent(tb testing.TB, dir string, m *model.Machine) *claims.Preparer {
	tb.Helper()
	records, err := journal.Open(filepath.Join(dir, "journal"))
	if err != nil {
		tb.Fatal(err)
	}
	specs, err := cdi.Open(filepath.Join(dir, "cdi"))
	if err != nil {
		tb.Fatal(err)
	}
	p := &claims.Preparer{
		Driver: claims.Of(cpu.Driver{}), Journal: records, CDI: specs, BootID: "boot",
		Machine: func() *model.Machine { return m }, RuntimeReady: func() error { return nil },
		Namespaces: agenttest.NoNamespaces{}, Changed: func() {}, Status: func(status.Report) {},
	}
	if err := p.Recover(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return p
}

func cpuClaim(name string, n int64) driver.Claim {
	c := agenttest.ClaimFor(name, "cpudevnuma000")
	c.Devices[0].Consumed = map[string]resource.Quantity{slicecodec.CapacityCPU: *resource.NewQuantity(n, resource.DecimalSI)}
	return c
}

func cpusOf(tb testing.TB, r driver.Record) cpuset.CPUSet {
	tb.Helper()
	pin, err := cpu.Driver{}.Exclusive([]driver.Record{r})
	if err != nil {
		tb.Fatal(err)
	}
	return pin.CPUs
}

// Claims prepared at once, by several agents as during an upgrade, never share a
// CPU.
func TestClaimsAtOnceShareNoCPU(t *testing.T) {
	races := 2000
	if testing.Short() {
		races = 200
	}
	if err := race(t, races); err != nil {
		t.Error(err)
	}
}

// BenchmarkPrepareAtOnce is the same 10,000 times; it has to find none.
func BenchmarkPrepareAtOnce(b *testing.B) {
	shared := 0
	for b.Loop() {
		if err := race(b, 10000); err != nil {
			b.Error(err)
			shared++
		}
	}
	b.ReportMetric(float64(shared), "shared-CPUs")
}

// race prepares claims of 4 of 32 CPUs with eight agents at once, and looks
// whether anybody else holds what each is given.
func race(t testing.TB, races int) error {
	t.Helper()
	const workers = 8
	dir := t.TempDir()
	if memory, err := os.MkdirTemp("/dev/shm", "plumbline-race-"); err == nil { // a disk would make it minutes
		dir = memory
		t.Cleanup(func() { _ = os.RemoveAll(memory) })
	}
	m := cpuMachine(t, 16)
	var holder [64]atomic.Int32
	var group errgroup.Group
	for w := range workers {
		agent := cpuAgent(t, dir, m)
		group.Go(func() error {
			for i := range races / workers {
				c := cpuClaim(fmt.Sprintf("worker-%d-%d", w, i), 4)
				r, err := agent.Prepare(context.Background(), c)
				if err != nil {
					return err
				}
				cpus := cpusOf(t, r).List()
				for _, id := range cpus {
					if !holder[id].CompareAndSwap(0, int32(w+1)) {
						return fmt.Errorf("CPU %d is given to %s while another has it", id, c.ClaimRef)
					}
				}
				for _, id := range cpus {
					holder[id].Store(0)
				}
				if err := agent.Unprepare(context.Background(), c.ClaimRef); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// An agent killed after any step of preparing or unpreparing CPUs leaves a node
// that the next agent puts right: the claim has what was journaled for it or
// nothing, and nobody else's CPUs.
func TestCPUClaimsSurviveKills(t *testing.T) {
	if *cpuCrashStep != "" {
		killedAgent(t)
		return
	}
	m := cpuMachine(t, 4)
	for _, undo := range []bool{false, true} {
		for _, step := range []claims.Step{claims.StepPlanned, claims.StepSpecWritten, claims.StepSpecRemoved, claims.StepForgotten} {
			removing := step == claims.StepSpecRemoved || step == claims.StepForgotten
			if removing != undo {
				continue
			}
			t.Run(string(step), func(t *testing.T) {
				dir := t.TempDir()
				before := cpuAgent(t, dir, m)
				other, err := before.Prepare(t.Context(), cpuClaim("other", 3))
				if err != nil {
					t.Fatal(err)
				}
				var planned cpuset.CPUSet
				if undo {
					mine, err := before.Prepare(t.Context(), cpuClaim("mine", 4))
					if err != nil {
						t.Fatal(err)
					}
					planned = cpusOf(t, mine)
				}
				runKilled(t, dir, step, undo)

				next := cpuAgent(t, dir, m)
				if undo {
					if err := next.Unprepare(t.Context(), cpuClaim("mine", 4).ClaimRef); err != nil {
						t.Fatal(err)
					}
					if _, err := next.Journal.Get(next.Name(), "mine-uid"); err == nil {
						t.Error("the claim is still in the journal")
					}
				} else {
					known, err := next.Journal.Get(next.Name(), "mine-uid")
					if err != nil {
						t.Fatalf("the plan that was journaled is lost: %v", err)
					}
					planned = cpusOf(t, known)
				}
				again, err := next.Prepare(t.Context(), cpuClaim("mine", 4))
				if err != nil {
					t.Fatal(err)
				}
				if got := cpusOf(t, again); !got.Equals(planned) || !got.Intersection(cpusOf(t, other)).IsEmpty() {
					t.Errorf("after the kill the claim has %s, before it had %s; the other has %s", got, planned, cpusOf(t, other))
				}
				if uids, err := next.CDI.Claims(next.Name()); err != nil || len(uids) != 2 {
					t.Errorf("CDI files of %v, %v; want both claims'", uids, err)
				}
			})
		}
	}
}

// killedAgent is the agent that kills itself.
func killedAgent(t *testing.T) {
	p := cpuAgent(t, *cpuCrashDir, cpuMachine(t, 4))
	p.OnStep = func(s claims.Step) {
		if s == claims.Step(*cpuCrashStep) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until it arrives
		}
	}
	c := cpuClaim("mine", 4)
	if *cpuCrashUndo {
		t.Fatal(p.Unprepare(t.Context(), c.ClaimRef))
	}
	_, err := p.Prepare(t.Context(), c)
	t.Fatal(err)
}

func runKilled(t *testing.T, dir string, step claims.Step, undo bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCPUClaimsSurviveKills$",
		"-cpu-crash-dir="+dir, "-cpu-crash-step="+string(step), fmt.Sprintf("-cpu-crash-undo=%t", undo))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the agent was not killed after %q: %v\n%s", step, err, out)
	}
}

// BenchmarkPrepareCPU prepares a claim of 4 of 256 CPUs, journal on disk and CDI
// file included, beside 20 others; the driver we replace takes 0.24 ms and keeps
// no journal. The floor is writing one such file so that it survives a crash.
func BenchmarkPrepareCPU(b *testing.B) {
	p := cpuAgent(b, b.TempDir(), cpuMachine(b, 64))
	for i := range 20 {
		if _, err := p.Prepare(b.Context(), cpuClaim(fmt.Sprintf("held-%d", i), 3)); err != nil {
			b.Fatal(err)
		}
	}
	i, beside := 0, b.TempDir()
	var floor time.Duration
	for b.Loop() {
		c := cpuClaim(fmt.Sprintf("claim-%d", i), 4)
		c.UID = types.UID(fmt.Sprintf("uid-%d", i))
		i++
		if _, err := p.Prepare(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		start := time.Now()
		if err := atomicfile.Write(filepath.Join(beside, "record"), 0o600, strings.NewReader(strings.Repeat("x", 600))); err != nil {
			b.Fatal(err)
		}
		floor += time.Since(start)
		if err := p.Unprepare(b.Context(), c.ClaimRef); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(b.Elapsed().Seconds()/floor.Seconds(), "of-floor")
}
