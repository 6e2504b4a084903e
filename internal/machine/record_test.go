// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/machine/recording"
	"plumbline.dev/plumbline/internal/model"
)

func scan(t *testing.T, sys fs.FS) *model.Machine {
	t.Helper()
	m, problems, err := inventory.Scan(context.Background(), inventory.Sources{Sys: sys}, inventory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Logf("scan: %s", p)
	}
	return m
}

// recordAndRead records a tree and reads the recording's text again.
func recordAndRead(t *testing.T, sys fs.FS, o recording.Options) (*recording.Recording, string) {
	t.Helper()
	tree, problems, err := recording.Record(context.Background(), sys, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Logf("record: %s", p)
	}
	text := (&recording.Recording{Tree: tree}).Encode()
	r, err := recording.Parse(text, "r")
	if err != nil {
		t.Fatal(err)
	}
	return r, string(text)
}

var sameMachine = cmp.Options{
	cmpopts.IgnoreUnexported(model.Machine{}),
	cmp.Comparer(func(a, b cpuset.CPUSet) bool { return a.Equals(b) }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

// withoutPrivate is a machine as a recording may tell it.
func withoutPrivate(m *model.Machine) *model.Machine {
	for i := range m.NICs {
		if iface := m.NICs[i].Interface; iface != nil {
			iface.MAC, iface.Alias = nil, nil
		}
	}
	return m
}

func TestRecordedMachineScansAsTheOriginal(t *testing.T) {
	everyFacts(t, func(t *testing.T, f *Facts) {
		tree := treeOf(t, f)
		whole, _ := recordAndRead(t, tree, recording.Options{Private: true})
		if diff := cmp.Diff(scan(t, tree), scan(t, whole.Tree), sameMachine); diff != "" {
			t.Errorf("with addresses: original (-) and recording (+) differ:\n%s", diff)
		}
		public, text := recordAndRead(t, tree, recording.Options{})
		if diff := cmp.Diff(withoutPrivate(scan(t, tree)), scan(t, public.Tree), sameMachine); diff != "" {
			t.Errorf("original (-) and recording (+) differ:\n%s", diff)
		}
		if mac := regexp.MustCompile(`([0-9a-f]{2}:){5}`).FindString(text); mac != "" {
			t.Errorf("the recording holds an address: %s", mac)
		}
	})
}

func TestRecordedHostScansAsTheOriginal(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/cpu/online"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("no /sys of Linux here")
	}
	host := os.DirFS("/sys")
	r, text := recordAndRead(t, host, recording.Options{})
	if diff := cmp.Diff(withoutPrivate(scan(t, host)), scan(t, r.Tree), sameMachine); diff != "" {
		t.Errorf("host (-) and recording (+) differ:\n%s", diff)
	}
	if name, err := os.Hostname(); err == nil && len(name) > 3 && strings.Contains(text, name) {
		t.Errorf("the recording holds the host's name, %s", name)
	}
}

func TestScanOfRenderedMachineHasNoProblems(t *testing.T) {
	everyFacts(t, func(t *testing.T, f *Facts) {
		m, problems, err := inventory.Scan(context.Background(), inventory.Sources{
			Sys: treeOf(t, f), GPUs: inventory.Simulated{Facts: f.ModelGPUs(), StandIn: "nothing"},
		}, inventory.Options{Name: f.Name, Architecture: f.Arch})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]sysfs.Problem(nil), problems, cmpopts.EquateErrors()); diff != "" {
			t.Error(diff)
		}
		for _, list := range [][]Device{f.GPUs, f.NICs} {
			for _, d := range list {
				checkFunction(t, m, d)
			}
		}
	})
}

// checkFunction compares a scanned function with the facts it came from.
func checkFunction(t *testing.T, m *model.Machine, d Device) {
	t.Helper()
	got := m.Function(d.Address)
	if got == nil {
		t.Errorf("%s: no function at %s", d.Label(), d.Address)
		return
	}
	if got.Root != d.SysfsRoot || got.Class != d.Class || m.Root(got.Root).Published != d.Published() {
		t.Errorf("%s: scanned as %+v, published %v", d.Label(), *got, m.Root(got.Root).Published)
	}
	if diff := cmp.Diff(d.NUMA, got.NUMANode); diff != "" {
		t.Errorf("%s: NUMA node: %s", d.Label(), diff)
	}
}

func TestRecordingRoundTrip(t *testing.T) {
	everyFacts(t, func(t *testing.T, f *Facts) {
		first := &recording.Recording{Name: f.Name, Arch: f.Arch, Tree: treeOf(t, f)}
		text := first.Encode()
		second, err := recording.Parse(text, "r")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first.Tree.Entries(), second.Tree.Entries()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(string(text), string(second.Encode())); diff != "" {
			t.Error(diff)
		}
	})
}
