// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
)

// races is how often make test races; make bench does it 10,000 times.
const races = 50

func TestTwoClaimsAtOnceShareNoCPU(t *testing.T) {
	if shared := race(t, races); shared > 0 {
		t.Errorf("%d of %d pairs of claims shared a CPU", shared, races)
	}
}

// BenchmarkRace races the number of times that the design asks for.
func BenchmarkRace(b *testing.B) {
	const all = 10_000
	shared, runs := 0, 0
	for b.Loop() {
		shared += race(b, all)
		runs++
	}
	b.ReportMetric(float64(all*runs), "races")
	b.ReportMetric(float64(shared), "CPUs-shared")
}

// race has two agents, as during an upgrade, prepare a claim each at the same
// moment, again and again, and counts the pairs that share a CPU or were refused.
func race(t testing.TB, times int) (shared int) {
	t.Helper()
	dir := memory(t)
	m := fourCPUs(t)
	var agents []*Preparer
	for range 2 {
		records, err := journal.Open(filepath.Join(dir, "journal"))
		if err != nil {
			t.Fatal(err)
		}
		specs, err := cdi.Open(filepath.Join(dir, "cdi"))
		if err != nil {
			t.Fatal(err)
		}
		agents = append(agents, &Preparer{
			Driver: Of(cpu.Driver{}), Journal: records, CDI: specs, BootID: "boot", Machine: func() *model.Machine { return m },
			RuntimeReady: func() error { return nil }, Namespaces: agenttest.NoNamespaces{}, Changed: func() {}, Status: func(status.Report) {},
		})
	}
	for i := range times {
		var records [2]driver.Record
		var errs [2]error
		var group sync.WaitGroup
		start := make(chan struct{})
		for k, p := range agents {
			c := agenttest.ClaimFor(fmt.Sprintf("c%d-%d", i, k), "cpudevnuma000")
			c.Devices[0].Consumed = map[string]resource.Quantity{"dra.cpu/cpu": resource.MustParse("1")}
			group.Go(func() {
				<-start
				records[k], errs[k] = p.Prepare(t.Context(), c)
			})
		}
		close(start)
		group.Wait()
		var sets [2]cpuset.CPUSet
		for k, p := range agents {
			if errs[k] != nil {
				t.Fatal(errs[k])
			}
			pin, err := p.Pinner.Exclusive(records[k : k+1])
			if err != nil || pin.CPUs.Size() != 1 {
				t.Fatalf("%s, %v: want one CPU", pin.CPUs, err)
			}
			sets[k] = pin.CPUs
		}
		if !sets[0].Intersection(sets[1]).IsEmpty() {
			shared++
		}
		for k := range agents { // each is unprepared by the other
			if err := agents[1-k].Unprepare(t.Context(), records[k].Claim); err != nil {
				t.Fatal(err)
			}
		}
	}
	return shared
}

// memory is a directory whose fsync costs nothing: what is raced are locks.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "plumbline-race")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func fourCPUs(t testing.TB) *model.Machine {
	t.Helper()
	parts := model.Machine{NUMANodes: []model.NUMANode{{ID: 0, CPUs: cpuset.New(0, 1, 2, 3)}}}
	for id := range 4 {
		node := 0
		parts.CPUs = append(parts.CPUs, model.CPU{ID: id, Online: true, NUMANode: &node, Core: &model.CoreID{Core: id}, Siblings: cpuset.New(id)})
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
