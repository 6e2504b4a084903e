// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"fmt"
	"os"
	"testing"

	"github.com/containerd/nri/pkg/api"
)

// crowd is how many containers without a claim a full node has.
const crowd = 1500

// BenchmarkPrepareBesideACrowd is what an exclusive start costs on a full node:
// the plan, its journaling with fsync, one write for each of the other
// containers, and the CDI file. The control groups are plain files; the kernel's
// own cost of a write comes on top.
func BenchmarkPrepareBesideACrowd(b *testing.B) {
	quietNRI()
	n := newPinnedNode(b)
	dir, err := os.MkdirTemp("/dev/shm", "plumbline-groups") // files of a file system in memory, as the kernel's are
	if err == nil {
		b.Cleanup(func() { _ = os.RemoveAll(dir) })
		n.groups = dir
		n.write(b, "cgroup.controllers", "cpuset cpu")
	}
	a := n.agent(b)
	for i := range crowd {
		id := fmt.Sprintf("c%04d", i)
		n.write(b, groupOf(id)+"/cpuset.cpus", "")
		n.write(b, groupOf(id)+"/cpuset.mems", "")
		pod := podOf(fmt.Sprintf("p%03d", i/3), "/run/netns/x")
		n.pods = append(n.pods, pod)
		n.containers = append(n.containers, &api.Container{
			Id: id, Name: id, PodSandboxId: pod.Id, State: api.ContainerState_CONTAINER_RUNNING, Linux: &api.LinuxContainer{CgroupsPath: groupOf(id)},
		})
	}
	a.state.Reset(n.pods, n.containers)
	if err := a.pins.Settle(b.Context(), false); err != nil {
		b.Fatal(err)
	}
	claim, writes := cpusFor("a", 2), 0
	for b.Loop() {
		before := a.placer.Writes()
		a.prepare(b, claim)
		writes = a.placer.Writes() - before
		b.StopTimer()
		if err := a.claims.Unprepare(b.Context(), claim.ClaimRef); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(writes), "writes")
}
