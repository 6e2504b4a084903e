// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/machine/recording"
)

// hwlocView is what hwloc sees of a tree.
type hwlocView struct {
	Packages int
	// Nodes are the CPUs by NUMA node; a node with memory only has none.
	Nodes map[int]string
	CPUs  string
	// PCI are all functions, bridges included.
	PCI []string
	// Near are the CPUs that hwloc calls near to a function.
	Near map[string]string
}

// TestHwlocAgrees has an independent reader look at each rendered machine:
// Debian's hwloc, from PATH or unpacked (dpkg -x) below $PLUMBLINE_HWLOC.
func TestHwlocAgrees(t *testing.T) {
	run := hwloc(t)
	everyFacts(t, func(t *testing.T, f *Facts) {
		tree := treeOf(t, f)
		dir := filepath.Join(memoryDir(t), "machine")
		if err := tree.WriteTo(dir); err != nil {
			t.Fatal(err)
		}
		got := run(t, dir)
		near := got.Near
		got.Near = nil
		for _, n := range f.Nodes() {
			if _, seen := got.Nodes[n.ID]; seen && n.MemoryOnly {
				got.Nodes[n.ID] = "" // hwloc puts it beside the CPUs it is nearest to
			}
		}
		if diff := cmp.Diff(expected(t, f, tree), got); diff != "" {
			t.Errorf("facts (-) and hwloc (+) differ:\n%s", diff)
		}
		cpus := map[int]string{}
		for _, n := range f.Nodes() {
			cpus[n.ID] = n.CPUs.String()
		}
		for _, d := range slices.Concat(f.GPUs, f.NICs) {
			if d.NUMA == nil || d.Address.Domain > 0xffff {
				continue
			}
			if got := near[d.Address.String()]; got != cpus[*d.NUMA] {
				t.Errorf("%s is near CPUs %s to hwloc, its NUMA node %d has %s", d.Label(), got, *d.NUMA, cpus[*d.NUMA])
			}
		}
	})
}

// TestHwlocSeesTheSameInARecording checks that a recording keeps enough for
// other readers.
func TestHwlocSeesTheSameInARecording(t *testing.T) {
	run := hwloc(t)
	tree := treeOf(t, shipped(t, "egx-t4-cx5"))
	recorded, _ := recordAndRead(t, tree, recording.Options{})
	dir := memoryDir(t)
	original, copied := filepath.Join(dir, "original"), filepath.Join(dir, "recorded")
	for _, err := range []error{tree.WriteTo(original), recorded.Tree.WriteTo(copied)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(run(t, original), run(t, copied)); diff != "" {
		t.Errorf("original (-) and recording (+) differ to hwloc:\n%s", diff)
	}
}

// memoryDir is a temporary directory in memory where there is one: a tree has
// ten thousand small files.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "plumbline-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// expected is what the facts say, in hwloc's terms. Bridges come from the tree:
// the facts name only the switches' upstream ports.
func expected(t *testing.T, f *Facts, tree *Tree) hwlocView {
	t.Helper()
	want := hwlocView{Nodes: map[int]string{}}
	all := cpuset.New()
	sockets := map[int]bool{}
	for _, n := range f.Nodes() {
		all = all.Union(n.CPUs)
		want.Nodes[n.ID] = n.CPUs.String()
		if !n.MemoryOnly {
			sockets[n.Socket] = true
		}
	}
	want.Packages, want.CPUs = len(sockets), all.String()
	functions, err := fs.ReadDir(tree, "bus/pci/devices")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range functions {
		// Debian's hwloc is built for domains of 16 bits and leaves out others.
		if strings.Index(e.Name(), ":") == 4 {
			want.PCI = append(want.PCI, e.Name())
		}
	}
	for _, r := range f.Roots {
		if r.SwitchUp != nil && !slices.Contains(want.PCI, r.SwitchUp.String()) {
			t.Errorf("the tree lacks switch %s", r.SwitchUp)
		}
	}
	for _, d := range slices.Concat(f.GPUs, f.NICs) {
		if d.Address.Domain <= 0xffff && !slices.Contains(want.PCI, d.Address.String()) {
			t.Errorf("the tree lacks %s at %s", d.Label(), d.Address)
		}
	}
	slices.Sort(want.PCI)
	return want
}

// hwloc finds lstopo and returns how to run it over a tree.
func hwloc(t *testing.T) func(t *testing.T, dir string) hwlocView {
	t.Helper()
	program, libraries := "lstopo-no-graphics", ""
	if unpacked := os.Getenv("PLUMBLINE_HWLOC"); unpacked != "" {
		program = filepath.Join(unpacked, "usr/bin", program)
		found, err := filepath.Glob(filepath.Join(unpacked, "usr/lib/*-linux-gnu"))
		if err != nil || len(found) == 0 {
			t.Fatalf("PLUMBLINE_HWLOC=%s: no usr/lib/*-linux-gnu in it (%v)", unpacked, err)
		}
		libraries = strings.Join(found, ":")
	}
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("hwloc is missing, and CI must have it: %v", err)
		}
		t.Skipf("hwloc is missing: %v; install Debian's hwloc-nox", err)
	}
	return func(t *testing.T, dir string) hwlocView {
		t.Helper()
		cmd := exec.Command(program, "--of", "xml", "--filter", "io:all", "-")
		cmd.Env = []string{"HWLOC_FSROOT=" + dir, "HWLOC_COMPONENTS=linux,linuxio,stop", "LD_LIBRARY_PATH=" + libraries}
		out, err := cmd.Output()
		if err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				t.Fatalf("%v: %s", err, exit.Stderr)
			}
			t.Fatal(err)
		}
		view, err := parseHwloc(out)
		if err != nil {
			t.Fatal(err)
		}
		return view
	}
}

type hwlocObject struct {
	Type    string        `xml:"type,attr"`
	Index   int           `xml:"os_index,attr"`
	CPUs    string        `xml:"cpuset,attr"`
	BusID   string        `xml:"pci_busid,attr"`
	Bridge  string        `xml:"bridge_type,attr"`
	Objects []hwlocObject `xml:"object"`
}

func parseHwloc(out []byte) (hwlocView, error) {
	var topology struct {
		Objects []hwlocObject `xml:"object"`
	}
	if err := xml.Unmarshal(out, &topology); err != nil {
		return hwlocView{}, err
	}
	view := hwlocView{Nodes: map[int]string{}, Near: map[string]string{}}
	var cpus []int
	var errs []error
	var walk func(o hwlocObject, near string)
	walk = func(o hwlocObject, near string) {
		if o.CPUs != "" {
			set, err := hwlocMask(o.CPUs)
			errs = append(errs, err)
			near = set
		}
		switch o.Type {
		case "Package":
			view.Packages++
		case "PU":
			cpus = append(cpus, o.Index)
		case "NUMANode":
			view.Nodes[o.Index] = near
		case "PCIDev", "Bridge":
			if o.Type == "PCIDev" || strings.HasPrefix(o.Bridge, "1-") {
				view.PCI = append(view.PCI, o.BusID)
				view.Near[o.BusID] = near
			}
		}
		for _, child := range o.Objects {
			walk(child, near)
		}
	}
	for _, o := range topology.Objects {
		walk(o, "")
	}
	view.CPUs = cpuset.New(cpus...).String()
	slices.Sort(view.PCI)
	return view, errors.Join(errs...)
}

// hwlocMask turns "0x000000ff,0xffffffff" into a list.
func hwlocMask(text string) (string, error) {
	words := strings.Split(text, ",")
	var ids []int
	for i, word := range words {
		bits, err := strconv.ParseUint(strings.TrimPrefix(word, "0x"), 16, 32)
		if err != nil && word != "" {
			return "", fmt.Errorf("cpuset %q: %w", text, err)
		}
		for bit := range 32 {
			if bits>>bit&1 == 1 {
				ids = append(ids, (len(words)-1-i)*32+bit)
			}
		}
	}
	return cpuset.New(ids...).String(), nil
}
