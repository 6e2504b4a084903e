// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
)

// tree is a directory that looks like a host's control groups.
type tree struct {
	dir string
	// v1: the controllers have a directory each.
	v1 bool
}

func newTree(t testing.TB, v1 bool) tree {
	t.Helper()
	f := tree{dir: t.TempDir(), v1: v1}
	if v1 {
		f.write(t, "", "cpuset.cpus", "0-7")
	} else {
		f.write(t, "", "cgroup.controllers", "cpuset cpu")
	}
	return f
}

func (f tree) path(group, name string) string {
	if f.v1 {
		controller, _, _ := strings.Cut(name, ".")
		return filepath.Join(f.dir, controller, group, name)
	}
	return filepath.Join(f.dir, group, name)
}

func (f tree) write(t testing.TB, group, name, text string) {
	t.Helper()
	path := f.path(group, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (f tree) read(t testing.TB, group string) string {
	t.Helper()
	var words []string
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		text, err := os.ReadFile(f.path(group, name))
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, strings.TrimSpace(string(text)))
	}
	return strings.TrimSpace(strings.Join(words, " on "))
}

// add makes a container's group, with those around it, as the kubelet and the
// runtime leave them.
func (f tree) add(t testing.TB, id, cpus string) Container {
	t.Helper()
	pod := "kubepods/burstable/pod-" + id
	all := ""
	if f.v1 {
		all = "0-7"
	}
	for group := pod; group != "."; group = filepath.Dir(group) {
		f.write(t, group, "cpuset.cpus", all)
		f.write(t, group, "cpuset.mems", strings.ReplaceAll(all, "7", "1"))
	}
	group := pod + "/" + id
	f.write(t, group, "cpuset.cpus", cpus)
	f.write(t, group, "cpuset.mems", strings.ReplaceAll(all, "7", "1"))
	return Container{ID: id, Name: id, Group: "/" + group}
}

func (f tree) open(t testing.TB) *Placer {
	t.Helper()
	p, err := Open(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func set(t testing.TB, text string) cpuset.CPUSet {
	t.Helper()
	s, err := cpuset.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exclusive(c Container, cpus, mems cpuset.CPUSet) Container {
	c.Pin = driver.Pin{CPUs: cpus, Mems: mems}
	return c
}

// brief is what became of a pass, for comparison.
func brief(out Outcome) string {
	text := fmt.Sprintf("%d writes", out.Writes)
	for _, c := range out.Moved {
		text += ", moved " + c.ID
	}
	for _, d := range out.Drifted {
		text += fmt.Sprintf(", %s was on %s", d.Container.ID, d.Found)
	}
	for _, f := range out.Failed {
		text += ", failed " + f.Container.ID
	}
	return text
}

// A node's day: containers, a claim, drift, the claim's end.
func TestPlace(t *testing.T) {
	for name, v1 := range map[string]bool{"version 1": true, "version 2": false} {
		t.Run(name, func(t *testing.T) {
			f := newTree(t, v1)
			free := ""
			if v1 {
				free = "0-7"
			}
			shared, other := f.add(t, "shared", free), f.add(t, "other", free)
			own := f.add(t, "own", "2-5")
			own.RequestedCPUs = set(t, "2-5")
			holder := exclusive(f.add(t, "holder", free), set(t, "4-5"), set(t, "1"))
			gone := Container{ID: "gone", Group: "/kubepods/gone"}
			doubtful := f.add(t, "doubtful", "6")
			doubtful.Skip = true
			all := []Container{gone, holder, shared, other, own, doubtful}
			p := f.open(t)
			pool := set(t, "0-3,6-7")
			for _, step := range []struct {
				name       string
				before     func()
				containers []Container
				pool       cpuset.CPUSet
				look       bool
				want, tree string
			}{
				{
					"nothing is held", nil, []Container{gone, shared, other, own, doubtful}, cpuset.New(), true, "0 writes",
					"shared " + free + ", other " + free + ", own 2-5, doubtful 6",
				},
				{
					"a claim came", nil, all, pool, false, "5 writes, moved shared, moved other, moved own, moved holder",
					"shared 0-3,6-7, other 0-3,6-7, own 2-3, doubtful 6, holder 4-5 on 1",
				},
				{"again", nil, all, pool, false, "0 writes", "shared 0-3,6-7, other 0-3,6-7, own 2-3, doubtful 6, holder 4-5 on 1"},
				{
					"somebody moves two, and nobody looks", func() {
						f.write(t, "kubepods/burstable/pod-shared/shared", "cpuset.cpus", "0-7")
						f.write(t, "kubepods/burstable/pod-holder/holder", "cpuset.mems", "0-1")
					}, all, pool, false, "0 writes", "shared 0-7, holder 4-5 on 0-1",
				},
				{
					"a look", nil, all, pool, true,
					"2 writes, moved shared, moved holder, shared was on CPUs 0-7, memory nodes " + anyOr(v1) + ", holder was on CPUs 4-5, memory nodes 0-1",
					"shared 0-3,6-7, holder 4-5 on 1",
				},
				{
					"the claim went", nil, []Container{gone, shared, other, own, doubtful}, cpuset.New(), false, "3 writes, moved shared, moved other, moved own",
					"shared " + free + ", other " + free + ", own 2-5, doubtful 6",
				},
				{
					"others move their own container", func() { f.write(t, "kubepods/burstable/pod-own/own", "cpuset.cpus", "1") },
					[]Container{shared, other, own}, cpuset.New(), true, "0 writes", "own 1",
				},
			} {
				if step.before != nil {
					step.before()
				}
				if got := brief(p.Place(step.containers, step.pool, step.look)); got != step.want {
					t.Errorf("%s: %s; want %s", step.name, got, step.want)
				}
				for want := range strings.SplitSeq(step.tree, ", ") {
					id, place, _ := strings.Cut(want, " ")
					got := f.read(t, "kubepods/burstable/pod-"+id+"/"+id)
					if !strings.Contains(place, " on ") {
						got, _, _ = strings.Cut(got, " on ")
						got = strings.TrimSuffix(got, "on")
					}
					if strings.TrimSpace(got) != place {
						t.Errorf("%s: %s is on %q, want %q", step.name, id, got, place)
					}
				}
			}
		})
	}
}

func anyOr(v1 bool) string {
	if v1 {
		return "0-1"
	}
	return "any"
}

// The agent's own group may be none of its business (a namespace root of a
// hierarchy mounted with nsdelegate refuses): it fails alone.
func TestOneThatCannotBeWritten(t *testing.T) {
	f := newTree(t, false)
	good, bad := f.add(t, "good", ""), f.add(t, "bad", "")
	path := f.path("kubepods/burstable/pod-bad/bad", "cpuset.cpus")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.write(t, "kubepods/burstable/pod-bad/bad", "cgroup.procs", "")
	p := f.open(t)
	for range 2 {
		out := p.Place([]Container{bad, good}, set(t, "0-3"), false)
		if len(out.Failed) != 1 || out.Failed[0].Container.ID != "bad" || !strings.Contains(out.Failed[0].Err.Error(), "cpuset") {
			t.Errorf("got %s", brief(out))
		}
	}
	if got := f.read(t, "kubepods/burstable/pod-good/good"); got != "0-3 on" {
		t.Errorf("the other one is on %q", got)
	}
}

// A container with CPUs of its own is stopped by no quota, nor is its pod where
// every container has one; whoever brings them back loses them at the next look.
func TestQuotas(t *testing.T) {
	for name, v1 := range map[string]bool{"version 1": true, "version 2": false} {
		t.Run(name, func(t *testing.T) {
			f := newTree(t, v1)
			limit := func(group, limited string) {
				if v1 {
					f.write(t, group, "cpu.cfs_quota_us", limited)
					f.write(t, group, "cpu.cfs_period_us", "100000")
					return
				}
				f.write(t, group, "cpu.max", limited+" 100000")
			}
			var groups []string
			limitAll := func() {
				for _, group := range groups {
					limit(group, "200000")
				}
			}
			lone := exclusive(f.add(t, "lone", "0-7"), set(t, "4-5"), set(t, "1"))
			lone.AllLimited = true
			mixed := exclusive(f.add(t, "mixed", "0-7"), set(t, "6-7"), set(t, "1"))
			shared := f.add(t, "shared", "0-7")
			for _, id := range []string{"lone", "mixed", "shared"} {
				groups = append(groups, "kubepods/burstable/pod-"+id, "kubepods/burstable/pod-"+id+"/"+id)
			}
			p := f.open(t)
			all := []Container{lone, mixed, shared}
			for _, step := range []struct {
				again bool
				want  int
			}{{true, 3}, {false, 0}, {true, 3}} {
				if step.again {
					limitAll()
				} else if !v1 { // the kernel says max 100000, a plain file what was written
					for _, group := range []string{"kubepods/burstable/pod-lone", "kubepods/burstable/pod-lone/lone", "kubepods/burstable/pod-mixed/mixed"} {
						limit(group, "max")
					}
				}
				if out := p.Place(all, set(t, "0-3"), true); out.Lifted != step.want || len(out.Failed) > 0 {
					t.Errorf("%s, %d lifted; want %d", brief(out), out.Lifted, step.want)
				}
			}
		})
	}
}

func TestIdle(t *testing.T) {
	f := newTree(t, false)
	c := f.add(t, "c", "")
	p := f.open(t)
	if p.Idle([]Container{c}, cpuset.New()) {
		t.Error("a container that nobody has looked at")
	}
	p.Place([]Container{c}, cpuset.New(), true)
	if !p.Idle([]Container{c}, cpuset.New()) || p.Idle([]Container{c}, set(t, "0-3")) {
		t.Error("a container that nobody confines, or one that is to be confined")
	}
	p.Place([]Container{c}, set(t, "0-3"), true)
	if p.Idle([]Container{c}, cpuset.New()) {
		t.Error("a container to be set free")
	}
	p.Forget("c")
	if _, known := p.Placed("c"); known {
		t.Error("a container that has ended")
	}
}

// Version 1 wants a group's CPUs in every group around it.
func TestGroupsAroundMakeRoom(t *testing.T) {
	f := newTree(t, true)
	c := exclusive(f.add(t, "c", "0-7"), set(t, "8-9"), set(t, "1"))
	if got := brief(f.open(t).Place([]Container{c}, set(t, "0-7"), true)); got != "5 writes, moved c" {
		t.Error(got)
	}
	var around []string
	for _, group := range []string{"kubepods", "kubepods/burstable", "kubepods/burstable/pod-c", "kubepods/burstable/pod-c/c"} {
		around = append(around, f.read(t, group))
	}
	if want := []string{"0-9 on 0-1", "0-9 on 0-1", "0-9 on 0-1", "8-9 on 1"}; !slices.Equal(around, want) {
		t.Errorf("got %v, want %v", around, want)
	}
}

// BenchmarkExclusiveStart is what a claim costs the other containers of a full
// node: one pass, one write each.
func BenchmarkExclusiveStart(b *testing.B) {
	const others = 1500
	f := newTree(b, false)
	var all []Container
	for i := range others {
		all = append(all, f.add(b, fmt.Sprintf("c%04d", i), ""))
	}
	p := f.open(b)
	pools := []cpuset.CPUSet{set(b, "0-3,8-511"), set(b, "0-511")}
	p.Place(all, cpuset.New(), true)
	writes, passes := 0, 0
	for b.Loop() {
		writes += p.Place(all, pools[passes%2], false).Writes
		passes++
	}
	b.ReportMetric(float64(writes)/float64(passes), "writes")
	b.ReportMetric(float64(writes)/float64(passes)/others, "writes/container")
}
