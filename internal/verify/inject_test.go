// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// tutorial is a pod of the tutorial's shape on its machine: one GPU, the NIC
// beside it, four CPUs of their NUMA node.
func tutorial(t *testing.T) (*verifytest.Node, *verifytest.Pod, verifytest.AllocatedPod) {
	t.Helper()
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	p, allocated := trainOn(t, n)
	return n, p, allocated
}

// trainOn starts the tutorial's pod on a node, for the time of the test.
func trainOn(t *testing.T, n *verifytest.Node) (*verifytest.Pod, verifytest.AllocatedPod) {
	t.Helper()
	p := n.NewPod("train")
	allocated := n.Give(p, verifytest.Ours(), []int{0}, []int{0}, cpuset.New(4, 5, 6, 7))
	n.Write(t, p)
	t.Cleanup(func() { n.Remove(t, p) })
	return p, allocated
}

// look looks twice: before the second look every thread has run where it is.
func look(t *testing.T, n *verifytest.Node, r *collect.Reader, p *verifytest.Pod, expected expect.Pod) verify.Result {
	t.Helper()
	verify.Check(t.Context(), n.Machine, r, []expect.Pod{expected}, false)
	p.Run()
	n.Tick(t, p)
	return verify.Check(t.Context(), n.Machine, r, []expect.Pod{expected}, true)[0]
}

func explain(r verify.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", r.Status, r.Reason)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "  %-7s %s: %s\n", f.State, f.What, f.Why)
	}
	return b.String()
}

func TestAligned(t *testing.T) {
	n, p, allocated := tutorial(t)
	got := look(t, n, n.Reader(t), p, allocated.Expect())
	if got.Status != evaluate.True {
		t.Fatal(explain(got))
	}
	classes := map[string]string{}
	for _, pair := range got.Pairs {
		classes[pair.A+" "+pair.B] = pair.Class.String()
	}
	if classes["/dev/nvidia0 net0"] != "PIX" && classes["/dev/nvidia0 net0"] != "PXB" || classes["net0 main CPUs"] != "NODE" {
		t.Errorf("classes %v: want GPU and NIC below one switch, CPUs on their node", classes)
	}
}

// word is the class of a pair and the nearest that the machine could have given.
func word(r verify.Result, a, b string) string {
	for _, p := range r.Pairs {
		if p.A == a && p.B == b {
			return p.Class.String() + " " + p.Nearest.String()
		}
	}
	return "no such pair"
}

// Two questions, two answers: what is as claimed may be farther apart than the
// machine could have given it, and what is near may not be as claimed.
func TestTwoAnswers(t *testing.T) {
	tests := []struct {
		name       string
		gpus, nics []int
		cpus       cpuset.CPUSet
		change     func(n *verifytest.Node, p *verifytest.Pod)
		asClaimed  evaluate.Status
		aligned    evaluate.Status
		reason     evaluate.Code
		word       evaluate.Word
		pairs      map[[2]string]string
	}{
		{
			name: "the tutorial's aligned pod", gpus: []int{0}, nics: []int{0}, cpus: cpuset.New(4, 5, 6, 7),
			asClaimed: evaluate.True, aligned: evaluate.True, reason: evaluate.Nearest, word: evaluate.WordAligned,
			pairs: map[[2]string]string{
				{"/dev/nvidia0", "net0"}: "PIX PIX", {"/dev/nvidia0", "main CPUs"}: "NODE NODE", {"net0", "main CPUs"}: "NODE NODE",
			},
		},
		{
			name: "the tutorial's misaligned pod", gpus: []int{2}, nics: []int{2}, cpus: cpuset.New(60, 61, 62, 63),
			asClaimed: evaluate.True, aligned: evaluate.False, reason: evaluate.FartherThanPossible, word: evaluate.WordAsClaimed,
			pairs: map[[2]string]string{
				{"/dev/nvidia2", "net0"}: "PIX PIX", {"/dev/nvidia2", "main CPUs"}: "SYS NODE", {"net0", "main CPUs"}: "SYS NODE",
			},
		},
		{
			name: "GPU and NIC without a constraint", gpus: []int{0}, nics: []int{7},
			asClaimed: evaluate.True, aligned: evaluate.False, reason: evaluate.FartherThanPossible, word: evaluate.WordAsClaimed,
			pairs: map[[2]string]string{{"/dev/nvidia0", "net0"}: "SYS PIX"},
		},
		{
			name: "all GPUs and all NICs", gpus: []int{0, 1, 2, 3, 4, 5, 6, 7}, nics: []int{7, 6, 5, 4, 3, 2, 1, 0},
			asClaimed: evaluate.True, aligned: evaluate.True, reason: evaluate.Nearest, word: evaluate.WordAligned,
		},
		{
			name: "a NIC alone", nics: []int{0},
			asClaimed: evaluate.True, aligned: evaluate.True, reason: evaluate.NoPairs, word: evaluate.WordAligned,
		},
		{
			name: "near, with a GPU that nobody claimed", gpus: []int{0}, nics: []int{0}, cpus: cpuset.New(4, 5),
			change:    func(n *verifytest.Node, p *verifytest.Pod) { p.Files["/dev/nvidia5"] = n.GPUNumber(5) },
			asClaimed: evaluate.False, aligned: evaluate.True, reason: evaluate.Nearest, word: evaluate.WordMisaligned,
			pairs: map[[2]string]string{{"/dev/nvidia5", "net0"}: "SYS ?"},
		},
		{
			name: "its NIC missing", gpus: []int{0}, nics: []int{0},
			change: func(_ *verifytest.Node, p *verifytest.Pod) {
				p.NICs, p.Files = nil, map[string]string{"/dev/nvidia0": "195:0"}
			},
			asClaimed: evaluate.False, aligned: evaluate.Unknown, reason: evaluate.DeviceMissing, word: evaluate.WordMisaligned,
		},
	}
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := n.NewPod("train")
			allocated := n.Give(p, verifytest.Ours(), test.gpus, test.nics, test.cpus)
			if test.change != nil {
				test.change(n, p)
			}
			n.Write(t, p)
			t.Cleanup(func() { n.Remove(t, p) })
			got := verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{allocated.Expect()}, false)[0]
			near := got.Nearness()
			if got.Status != test.asClaimed || near.Status != test.aligned || near.Reason != test.reason || got.Word() != test.word {
				t.Errorf("as claimed %s, aligned %s (%s: %s), %s\n%s", got.Status, near.Status, near.Reason, near.Message, got.Word(), explain(got))
			}
			for pair, want := range test.pairs {
				if has := word(got, pair[0], pair[1]); has != want {
					t.Errorf("%s to %s: %s, want %s", pair[0], pair[1], has, want)
				}
			}
		})
	}
}

// Every kind of misalignment, injected into an aligned pod, is found at the next
// look and called by its name.
func TestInjected(t *testing.T) {
	tests := []struct {
		name   string
		inject func(n *verifytest.Node, p *verifytest.Pod)
		code   evaluate.Code
		says   string
	}{
		{"cpuset moved to the other socket", func(n *verifytest.Node, p *verifytest.Pod) { p.Pin(cpuset.New(60, 61, 62, 63), p.Mems) },
			evaluate.CPUsWrong, "CPUs 60-63, of which 60-63 are of NUMA node 1"},
		{"cpuset moved on the same node", func(n *verifytest.Node, p *verifytest.Pod) { p.Pin(cpuset.New(8, 9, 10, 11), p.Mems) },
			evaluate.CPUsWrong, "CPUs 8-11; the driver gave it 4-7"},
		{"cpuset widened", func(n *verifytest.Node, p *verifytest.Pod) { p.Pin(cpuset.New(4, 5, 6, 7, 8), p.Mems) },
			evaluate.CPUsWrong, "CPUs 4-8 are 5, not 4"},
		{"cpuset widened and its container told so", func(n *verifytest.Node, p *verifytest.Pod) {
			p.Pin(cpuset.New(4, 5, 6, 7, 60), p.Mems)
			for uid := range p.EnvCPUs {
				p.EnvCPUs[uid] = p.CPUs
			}
		}, evaluate.CPUsWrong, "of which 60"},
		{"mems widened", func(n *verifytest.Node, p *verifytest.Pod) { p.Mems = cpuset.New(0, 1) },
			evaluate.MemoryWide, "memory of node 0-1, CPUs of node 0"},
		{"mems of the other node", func(n *verifytest.Node, p *verifytest.Pod) { p.Mems = cpuset.New(1) },
			evaluate.MemoryWide, "memory of node 1"},
		{"NIC swapped for the other socket's", func(n *verifytest.Node, p *verifytest.Pod) { p.NICs = map[string]int{"net0": 7} },
			evaluate.DeviceMissing, "is not in the pod; there is net0 at"},
		{"NIC swapped for its neighbour", func(n *verifytest.Node, p *verifytest.Pod) { p.NICs = map[string]int{"net0": 1} },
			evaluate.DeviceMissing, "is not in the pod; there is net0 at"},
		{"NIC gone", func(n *verifytest.Node, p *verifytest.Pod) { p.NICs = nil },
			evaluate.DeviceMissing, "is not in the pod, nor any other NIC"},
		{"NIC added", func(n *verifytest.Node, p *verifytest.Pod) { p.NICs["net1"] = 7 },
			evaluate.DeviceNotClaimed, "net1 at"},
		{"GPU file added", func(n *verifytest.Node, p *verifytest.Pod) { p.Files["/dev/nvidia5"] = n.GPUNumber(5) },
			evaluate.DeviceNotClaimed, "/dev/nvidia5 at"},
		{"GPU file added under another name", func(n *verifytest.Node, p *verifytest.Pod) { p.Files["/dev/x/y/z"] = n.GPUNumber(5) },
			evaluate.DeviceNotClaimed, "/dev/x/y/z at"},
		{"GPU file swapped, the name kept", func(n *verifytest.Node, p *verifytest.Pod) { p.Files["/dev/nvidia0"] = n.GPUNumber(1) },
			evaluate.DeviceMissing, "is in a container that names it; there is /dev/nvidia0 at"},
		{"capability files of another GPU's part added", func(n *verifytest.Node, p *verifytest.Pod) { n.AddInstance(p, 5, 1) },
			evaluate.DeviceNotClaimed, "no other MIG device in container main"},
		{"RDMA file of another NIC added", func(n *verifytest.Node, p *verifytest.Pod) { p.Files["/dev/infiniband/uverbs7"] = n.RDMANumber(7) },
			evaluate.DeviceNotClaimed, "/dev/infiniband/uverbs7 at"},
		{"RDMA device out of the namespace", func(_ *verifytest.Node, p *verifytest.Pod) { p.NoRDMA = true },
			evaluate.RDMAMissing, "is not in the pod's network namespace, which has no RDMA device"},
		{"file of verbs removed", func(_ *verifytest.Node, p *verifytest.Pod) { delete(p.Files, "/dev/infiniband/uverbs0") },
			evaluate.RDMAMissing, "container main has no /dev/infiniband/uverbs0"},
		{"management file given under another name", func(n *verifytest.Node, p *verifytest.Pod) { p.Files["/dev/infiniband/x"] = n.UMADNumber(0) },
			evaluate.DeviceNotClaimed, "container main has /dev/infiniband/x, by which the fabric"},
		{"management file of another NIC added", func(n *verifytest.Node, p *verifytest.Pod) { p.Files["/dev/infiniband/umad7"] = n.UMADNumber(7) },
			evaluate.DeviceNotClaimed, "/dev/infiniband/umad7 at"},
		{"GIDs gone", func(_ *verifytest.Node, p *verifytest.Pod) { p.GIDs = nil },
			evaluate.GIDMissing, "has no RoCE v2 GID of 192.0.2.1 of interface net0 (none)"},
		{"GID of RoCE v1 alone", func(_ *verifytest.Node, p *verifytest.Pod) { p.GIDs = []string{"IB/RoCE v1"} },
			evaluate.GIDMissing, "(only 192.0.2.1 of type IB/RoCE v1)"},
		{"locked memory limited", func(_ *verifytest.Node, p *verifytest.Pod) { p.Memlock = verifytest.RuntimeMemlock },
			evaluate.MemlockLimited, "RLIMIT_MEMLOCK is 8388608 bytes"},
		{"a process outside", func(n *verifytest.Node, p *verifytest.Pod) { p.Allowed = cpuset.New(4, 5, 6, 7, 9) },
			evaluate.ProcessOutside, "is allowed CPUs 4-7,9"},
		{"a thread outside", func(n *verifytest.Node, p *verifytest.Pod) { p.Threads[1].CPU = 99 },
			evaluate.ThreadOutside, "1 did, such as thread"},
	}
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, allocated := trainOn(t, n)
			r := n.Reader(t)
			if got := look(t, n, r, p, allocated.Expect()); got.Status != evaluate.True {
				t.Fatalf("before: %s", explain(got))
			}
			test.inject(n, p)
			p.Run()
			n.Write(t, p)
			got := verify.Check(t.Context(), n.Machine, r, []expect.Pod{allocated.Expect()}, false)[0]
			if got.Status != evaluate.False || got.Reason != test.code || !strings.Contains(got.Message, test.says) {
				t.Errorf("want %s and %q, got %s", test.code, test.says, explain(got))
			}
			for _, f := range got.Findings {
				if d := f.Differs; (f.State == evaluate.StateWrong) != (d != nil) || d != nil && (d.Of == "" || d.Attribute == "" || d.Claimed == "" || d.Observed == "") {
					t.Errorf("%s: %s: what differs is %+v", f.State, f.What, d)
				}
			}
		})
	}
}

// A thread that slept since before it was pinned says nothing.
func TestSleepingThreadIsNoAlarm(t *testing.T) {
	n, p, allocated := tutorial(t)
	p.Threads[1].CPU = 99
	n.Write(t, p)
	r := n.Reader(t)
	for range 3 {
		p.Threads[0].Ticks += 50
		n.Tick(t, p)
		if got := verify.Check(t.Context(), n.Machine, r, []expect.Pod{allocated.Expect()}, false)[0]; got.Status != evaluate.True {
			t.Fatal(explain(got))
		}
	}
}

// Two pods that run on one CPU of a claim are both flagged.
func TestSharedCPUs(t *testing.T) {
	n, p, allocated := tutorial(t)
	other := n.NewPod("other")
	second := n.Give(other, verifytest.Ours(), nil, nil, cpuset.New(7, 8))
	n.Write(t, p)
	n.Write(t, other)
	got := verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{allocated.Expect(), second.Expect()}, false)
	for _, r := range got {
		if r.Status != evaluate.False || r.Reason != evaluate.CPUsShared {
			t.Error(explain(r))
		}
	}
}

// A constraint is checked by where the components are, whatever was allocated.
func TestBrokenConstraint(t *testing.T) {
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	p := n.NewPod("train")
	allocated := n.Give(p, verifytest.Ours(), []int{0}, []int{0}, cpuset.New(4, 5))
	// The scheduler was told something else of the NIC than is true.
	last := len(n.Machine.NICs) - 1
	far := n.Give(n.NewPod("far"), verifytest.Ours(), []int{0}, []int{last}, cpuset.New(4, 5))
	p.NICs = map[string]int{"net0": last}
	p.Files = map[string]string{"/dev/nvidia0": n.GPUNumber(0), "/dev/infiniband/uverbs7": n.RDMANumber(last)}
	allocated.Claim.Status = far.Claim.Status
	allocated.Claim.Status.Allocation.Devices.Results[1].Request = "nic-0"
	n.Write(t, p)
	got := verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{allocated.Expect()}, false)[0]
	if got.Status != evaluate.False || got.Reason != evaluate.ConstraintBroken {
		t.Error(explain(got))
	}
}

// A container that ends, or a file that goes, never makes a verdict good, and
// never one that blames somebody.
func TestVanishing(t *testing.T) {
	harmless := []string{"net/route", "irq/", "memory.numa_stat", "cgroup.procs", "net/fib_trie"}
	n, p, allocated := tutorial(t)
	r := n.Reader(t)
	var entries []string
	collect := func(dir string) {
		if err := walk(n.Path(dir), func(path string) { entries = append(entries, path) }); err != nil {
			t.Fatal(err)
		}
	}
	collect(fmt.Sprintf("proc/%d", p.PID))
	collect("sys/fs/cgroup/" + p.Group())
	for _, path := range entries {
		if strings.Contains(path, "/root/dev/") || strings.Contains(path, "/infiniband") || strings.Contains(path, "/root/sys/devices") {
			continue // that a device file, RDMA device or GID is not there is a fact
		}
		n.Write(t, p)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		got := verify.Check(t.Context(), n.Machine, r, []expect.Pod{allocated.Expect()}, true)[0]
		ignored := got.Status == evaluate.True && (containsAny(path, harmless) || strings.Contains(path, "/task/"))
		if got.Status != evaluate.Unknown && !ignored {
			t.Errorf("without %s: %s", path, explain(got))
		}
	}
}

func containsAny(s string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}
