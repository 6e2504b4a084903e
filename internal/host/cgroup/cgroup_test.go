// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
)

const container = "kubepods/burstable/pod1/abc"

// versions are the same container in both versions.
var versions = map[string]map[string]string{
	"version 1": {
		"cpuset/cpuset.cpus":                             "0-7",
		"cpuset/" + container + "/cgroup.procs":          "",
		"cpuset/" + container + "/cpuset.cpus":           "0-7\n",
		"cpuset/" + container + "/cpuset.mems":           "0-1\n",
		"cpuset/" + container + "/cpuset.effective_cpus": "0-6\n",
		"cpuset/" + container + "/cpuset.effective_mems": "0-1\n",
		"cpu/" + container + "/cgroup.procs":             "",
		"cpu/" + container + "/cpu.cfs_quota_us":         "50000\n",
		"cpu/" + container + "/cpu.cfs_period_us":        "100000\n",
	},
	"version 2": {
		"cgroup.controllers":                   "cpuset cpu\n",
		container + "/cgroup.procs":            "",
		container + "/cpuset.cpus":             "0-7\n",
		container + "/cpuset.mems":             "0-1\n",
		container + "/cpuset.cpus.effective":   "0-6\n",
		container + "/cpuset.mems.effective":   "0-1\n",
		container + "/cpu.max":                 "50000 100000\n",
		"kubepods/burstable/pod1/cgroup.procs": "",
	},
}

func open(t *testing.T, files map[string]string) (*Hierarchy, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h, dir
}

func group(t *testing.T, h *Hierarchy, path string) Group {
	t.Helper()
	g, err := h.Group(path)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestPlaceWritesWhatChanges(t *testing.T) {
	for version, files := range versions {
		t.Run(version, func(t *testing.T) {
			h, _ := open(t, files)
			g := group(t, h, "/"+container)
			want := Placement{CPUs: cpuset.New(2, 3), Mems: cpuset.New(0)}
			for i, writes := range []int{2, 0} {
				if n, err := g.Place(want); err != nil || n != writes {
					t.Fatalf("time %d: %d writes, %v; want %d", i+1, n, err, writes)
				}
				if got, err := g.Placement(); err != nil || !got.Equal(want) {
					t.Fatalf("time %d: got %s, %v", i+1, got, err)
				}
			}
			if n, err := g.Place(Placement{CPUs: cpuset.New(4)}); err != nil || n != 1 {
				t.Fatalf("CPUs alone: %d writes, %v", n, err)
			}
			if got, _ := g.Placement(); got.String() != "CPUs 4, memory nodes 0" {
				t.Errorf("got %s", got)
			}
			if got, err := g.Effective(); err != nil || got.String() != "CPUs 0-6, memory nodes 0-1" {
				t.Errorf("effective: got %s, %v", got, err)
			}
		})
	}
}

func TestLiftQuota(t *testing.T) {
	for version, files := range versions {
		t.Run(version, func(t *testing.T) {
			h, _ := open(t, files)
			g := group(t, h, container)
			if q, err := g.Quota(); err != nil || q.String() != "50ms of 100ms" {
				t.Fatalf("got %s, %v", q, err)
			}
			if lifted, err := g.LiftQuota(); err != nil || !lifted {
				t.Fatalf("lifted %v, %v", lifted, err)
			}
			if version == "version 2" {
				return // the kernel would say "max 100000" now, a plain file says "max"
			}
			if lifted, err := g.LiftQuota(); err != nil || lifted {
				t.Fatalf("again: lifted %v, %v", lifted, err)
			}
		})
	}
}

func TestQuotaIsGivenBack(t *testing.T) {
	for version, files := range versions {
		t.Run(version, func(t *testing.T) {
			h, _ := open(t, files)
			g := group(t, h, container)
			before, err := g.Quota()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.LiftQuota(); err != nil {
				t.Fatal(err)
			}
			if err := g.SetQuota(before); err != nil {
				t.Fatal(err)
			}
			if after, err := g.Quota(); err != nil || after.String() != before.String() {
				t.Errorf("got %s, %v; want %s", after, err, before)
			}
			before.Time = nil
			if err := g.SetQuota(before); err != nil {
				t.Fatal(err)
			}
			if after, err := g.Quota(); err != nil || after.String() != "unlimited" {
				t.Errorf("got %s, %v; want unlimited", after, err)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	for version, want := range map[string]string{"version 1": "CPUs 0-7, memory nodes 0", "version 2": "CPUs any, memory nodes 0"} {
		t.Run(version, func(t *testing.T) {
			files := maps.Clone(versions[version])
			files["cpuset/kubepods/burstable/pod1/cpuset.cpus"] = "0-7"
			h, _ := open(t, files)
			g := group(t, h, container)
			if _, err := g.Place(Placement{CPUs: cpuset.New(2, 3), Mems: cpuset.New(0)}); err != nil {
				t.Fatal(err)
			}
			for i, writes := range []int{1, 0} {
				if n, err := g.Release(); err != nil || n != writes {
					t.Fatalf("time %d: %d writes, %v; want %d", i+1, n, err, writes)
				}
			}
			if got, err := g.Placement(); err != nil || got.String() != want {
				t.Errorf("got %s, %v; want %s", got, err, want)
			}
		})
	}
}

// Version 1 refuses a container the CPUs that its pod, or the kubelet's groups,
// lack; version 2 does not, and who narrowed a group there is left alone.
func TestMakeRoom(t *testing.T) {
	around := []string{"kubepods", "kubepods/burstable", "kubepods/burstable/pod1"}
	for version, want := range map[string]string{"version 1": "CPUs 0-5, memory nodes 0-1", "version 2": "CPUs 0-3, memory nodes 0"} {
		t.Run(version, func(t *testing.T) {
			files, prefix := maps.Clone(versions[version]), ""
			if version == "version 1" {
				prefix = "cpuset/"
			}
			for _, dir := range around {
				files[prefix+dir+"/cpuset.cpus"], files[prefix+dir+"/cpuset.mems"] = "0-3\n", "0\n"
			}
			h, _ := open(t, files)
			n, err := group(t, h, container).WidenAncestors(Placement{CPUs: cpuset.New(4, 5), Mems: cpuset.New(1)})
			if err != nil || n != 6 && version == "version 1" || n != 0 && version == "version 2" {
				t.Fatalf("%d writes, %v", n, err)
			}
			for _, dir := range around {
				if got, err := group(t, h, dir).Placement(); err != nil || got.String() != want {
					t.Errorf("%s: got %s, %v; want %s", dir, got, err, want)
				}
			}
			if n, err := group(t, h, container).WidenAncestors(Placement{CPUs: cpuset.New(4)}); err != nil || n != 0 {
				t.Errorf("again: %d writes, %v", n, err)
			}
		})
	}
}

// A kernel without openat2, or a sandbox that forbids it.
func TestFilesStepByStep(t *testing.T) {
	h, _ := open(t, versions["version 2"])
	h.files.atOnce = false
	g := group(t, h, container)
	if _, err := g.Place(Placement{CPUs: cpuset.New(2)}); err != nil {
		t.Fatal(err)
	}
	if got, err := g.Placement(); err != nil || got.String() != "CPUs 2, memory nodes 0-1" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestErrorsSayWhichGroup(t *testing.T) {
	h, dir := open(t, versions["version 2"])
	if _, err := group(t, h, "/kubepods/gone").Placement(); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "/kubepods/gone") {
		t.Errorf("gone: %v", err)
	}
	if _, err := group(t, h, container).Parent().Placement(); err == nil || errors.Is(err, ErrGone) ||
		!strings.Contains(err.Error(), "/kubepods/burstable/pod1 has no cpuset.cpus") {
		t.Errorf("without the controller: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, container, "cpuset.cpus"), []byte("a lot"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := group(t, h, container).Placement(); err == nil || !strings.Contains(err.Error(), "cpuset.cpus") {
		t.Errorf("hostile text: %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "neither") {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestGroupStaysBelowTheRoot(t *testing.T) {
	h, dir := open(t, versions["version 2"])
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "cpuset.cpus"), []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for _, atOnce := range []bool{true, false} {
		h.files.atOnce = atOnce
		if got, err := group(t, h, "out").Placement(); err == nil {
			t.Errorf("a link out of the hierarchy was followed: %s", got)
		}
	}
}

func TestExpand(t *testing.T) {
	tests := []struct{ path, want, why string }{
		{path: "/kubepods/pod1/abc", want: "kubepods/pod1/abc"},
		{path: "", want: ""},
		{path: "kubepods-burstable-pod1.slice:cri-containerd:abc",
			want: "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-abc.scope"},
		{path: "-.slice:crio:abc", want: "crio-abc.scope"},
		{path: ":crio:abc", want: "crio-abc.scope"},
		{path: "a.slice::b", want: "a.slice/b.scope"},
		{path: "a.slice:x:b.slice", want: "a.slice/b.slice"},
		{path: "/a/../../etc", why: ".."},
		{path: "a//b", why: "empty"},
		{path: "a:b:c", why: "ends in .slice"},
		{path: "a--b.slice:x:y", why: "single hyphens"},
		{path: "a.slice:x:", why: "names no unit"},
		{path: "a.slice:x:../../y", why: ".."},
	}
	for _, test := range tests {
		got, err := expand(test.path)
		if test.why != "" {
			if err == nil || !strings.Contains(err.Error(), test.why) {
				t.Errorf("%q: got %q, %v; want a refusal that says %q", test.path, got, err, test.why)
			}
		} else if err != nil || got != test.want {
			t.Errorf("%q: got %q, %v; want %q", test.path, got, err, test.want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("/kubepods/pod1/abc")
	f.Add("kubepods-burstable-pod1.slice:cri-containerd:abc")
	f.Fuzz(func(t *testing.T, path string) {
		got, err := expand(path)
		if err == nil && got != "" && !filepath.IsLocal(got) {
			t.Errorf("%q leads to %q, out of the hierarchy", path, got)
		}
	})
}

func FuzzParseQuota(f *testing.F) {
	f.Add("max 100000")
	f.Add("50000 100000")
	f.Fuzz(func(t *testing.T, text string) {
		q, err := parseQuota(text)
		if err == nil && (q.Period < 0 || q.Time != nil && *q.Time < 0) {
			t.Errorf("%q is %s", text, q)
		}
	})
}
