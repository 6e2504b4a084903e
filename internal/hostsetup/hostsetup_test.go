// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostsetup

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

func quiet(t *testing.T) context.Context {
	t.Helper()
	return klog.NewContext(t.Context(), klog.Logger{})
}

// kernel is a host whose modules are folders, as in sysfs.
type kernel struct {
	Host

	t *testing.T
	// needs are what a module needs, in the order of loading; used are modules in use.
	needs map[string][]string
	used  []string
	// dies ends the process before that module is loaded.
	dies string
}

func newKernel(t *testing.T, loaded ...string) *kernel {
	t.Helper()
	k := &kernel{Host: Host{Sys: t.TempDir()}, t: t, needs: map[string][]string{"rdma_ucm": {"ib_core", "ib_cm", "rdma_cm"}}}
	for _, m := range loaded {
		k.add(m)
	}
	return k
}

func (k *kernel) add(module string) {
	if err := os.MkdirAll(filepath.Join(k.Sys, "module", module), 0o755); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kernel) loadedModules() []string {
	entries, err := os.ReadDir(filepath.Join(k.Sys, "module"))
	if err != nil {
		k.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

var errKilled = errors.New("killed")

func (k *kernel) modprobe(_ context.Context, args ...string) ([]byte, error) {
	module := args[len(args)-1]
	if module == "tcp_bbr" {
		return []byte("builtin tcp_bbr\n"), nil
	}
	all := append(slices.Clone(k.needs[module]), module)
	if len(args) > 1 {
		var text strings.Builder
		for _, m := range all {
			text.WriteString("insmod /lib/modules/6.1.0/kernel/" + strings.ReplaceAll(m, "_", "-") + ".ko.xz option=1\n")
		}
		return []byte(text.String()), nil
	}
	for _, m := range all {
		if m == k.dies {
			return nil, errKilled
		}
		k.add(m)
	}
	return nil, nil
}

func (k *kernel) remove(module string) error {
	if slices.Contains(k.used, module) {
		return unix.EWOULDBLOCK
	}
	err := os.Remove(filepath.Join(k.Sys, "module", module))
	if errors.Is(err, os.ErrNotExist) {
		return unix.ENOENT
	}
	return err
}

func (k *kernel) loader(dir string) loader {
	return loader{host: k.Host, dir: dir, bootID: "b", modprobe: k.modprobe, remove: k.remove}
}

// What came along with a module goes with it, unless it was there before or somebody uses
// it by now.
func TestModules(t *testing.T) {
	for _, tc := range []struct {
		name         string
		before, used []string
		dies         string
		want         []string
	}{
		{"all are new", []string{"ext4"}, nil, "", []string{"ext4"}},
		{"one was there", []string{"ib_core"}, nil, "", []string{"ib_core"}},
		{"one is used by now", []string{"ext4"}, []string{"ib_core"}, "", []string{"ext4", "ib_core"}},
		{"killed half-way", []string{"ext4"}, nil, "rdma_cm", []string{"ext4"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k, dir := newKernel(t, tc.before...), t.TempDir()
			k.dies = tc.dies
			if _, err := k.loader(dir).load(t.Context(), "rdma_ucm"); tc.dies != "" && !errors.Is(err, errKilled) || tc.dies == "" && err != nil {
				t.Fatal(err)
			}
			k.used = tc.used
			if err := k.loader(dir).unload("rdma_ucm"); err != nil {
				t.Fatal(err)
			}
			if got := k.loadedModules(); !slices.Equal(got, tc.want) {
				t.Errorf("left %q, want %q", got, tc.want)
			}
			if a, err := k.loader(dir).along(); err != nil || len(a.With) > 0 {
				t.Errorf("noted %v, %v", a, err)
			}
		})
	}
	k := newKernel(t)
	if builtIn, err := k.loader(t.TempDir()).load(t.Context(), "tcp_bbr"); err != nil || !builtIn {
		t.Errorf("built in: %v, %v", builtIn, err)
	}
	k.used = []string{"vfio_pci"}
	if err := k.loader(t.TempDir()).unload("vfio_pci"); !errors.Is(err, unix.EWOULDBLOCK) || !strings.Contains(err.Error(), "vfio_pci is in use") {
		t.Errorf("in use: %v", err)
	}
}

// After a reboot other things load what once came along.
func TestModulesOfAnEarlierBoot(t *testing.T) {
	k, dir := newKernel(t), t.TempDir()
	l := k.loader(dir)
	if _, err := l.load(t.Context(), "rdma_ucm"); err != nil {
		t.Fatal(err)
	}
	l.bootID = "another"
	if err := l.unload("rdma_ucm"); err != nil {
		t.Fatal(err)
	}
	if got := k.loadedModules(); !slices.Equal(got, []string{"ib_cm", "ib_core", "rdma_cm"}) {
		t.Errorf("left %q", got)
	}
}

func TestServerRefuses(t *testing.T) {
	changes := map[string]Change{
		`module "nvidia": want one of`:                   {Field: "module/nvidia", Value: Present},
		`module rdma_cm: "": want present or absent`:     {Field: "module/rdma_cm"},
		`sysctl "kernel.core_pattern": want one of`:      {Field: "sysctl/kernel.core_pattern", Value: "|/bin/sh"},
		`sysctl vm.zone_reclaim_mode: "8": want`:         {Field: "sysctl/vm.zone_reclaim_mode", Value: "8"},
		`sysctl vm.swappiness: "060": want`:              {Field: "sysctl/vm.swappiness", Value: "060"},
		`PCI address "../../etc"`:                        {Function: "../../etc", Field: FieldMaxReadRequest, Value: "4096"},
		`maxReadRequest: "-128": want`:                   {Function: "0000:01:00.0", Field: FieldMaxReadRequest, Value: "-128"},
		`maxReadRequest: "8192": want`:                   {Function: "0000:01:00.0", Field: FieldMaxReadRequest, Value: "8192"},
		`relaxedOrdering: "on": want true or false`:      {Function: "0000:01:00.0", Field: FieldRelaxedOrdering, Value: "on"},
		`numVFs: "-1": want a number, 0-65535`:           {Function: "0000:01:00.0", Field: FieldNumVFs, Value: "-1"},
		`numVFs: "65536": want`:                          {Function: "0000:01:00.0", Field: FieldNumVFs, Value: "65536"},
		`numVFs: "08": want`:                             {Function: "0000:01:00.0", Field: FieldNumVFs, Value: "08"},
		`field "numVFs" of the host: want`:               {Field: FieldNumVFs, Value: "1"},
		`field "reset" of a PCI function: want`:          {Function: "0000:01:00.0", Field: "reset", Value: "1"},
		`field "../passwd" of the host: want module/ or`: {Field: "../passwd", Value: "x"},
	}
	dir := t.TempDir()
	s := Server{Dir: dir, BootID: "b", Host: Host{Sys: t.TempDir(), ProcSys: t.TempDir()}, Root: t.TempDir()}
	if err := s.CarryOut(quiet(t), Request{BootID: "b", Number: 1, Changes: slices.Collect(maps.Values(changes))}); err != nil {
		t.Fatal(err)
	}
	var told answers
	if err := load(dir, answersFile, &told); err != nil || len(told.Answers) != len(changes) {
		t.Fatalf("%d answers, %v", len(told.Answers), err)
	}
	for _, a := range told.Answers {
		for want, c := range changes {
			if c == a.Change && (!strings.Contains(a.Error, want) || !strings.HasPrefix(a.Error, "refused: ")) {
				t.Errorf("%+v: %s", c, a.Error)
			}
		}
	}
}

// Virtual functions go with another number of them: the server looks for itself whose they
// are, and whether the function is one that may have them.
func TestServerSetsVFs(t *testing.T) {
	const nic, disk, alone = "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"
	tree := hosttest.Tree(t, `
bus/pci/devices/0000:01:00.0/class = 0x020000
bus/pci/devices/0000:01:00.0/sriov_totalvfs = 8
bus/pci/devices/0000:01:00.0/sriov_numvfs = 1
bus/pci/devices/0000:02:00.0/class = 0x010802
bus/pci/devices/0000:02:00.0/sriov_totalvfs = 8
bus/pci/devices/0000:02:00.0/sriov_numvfs = 0
bus/pci/devices/0000:03:00.0/class = 0x020000
bus/pci/devices/0000:01:10.0/class = 0x020000
bus/pci/devices/0000:01:10.0/sriov_totalvfs = 8
`)
	h := Host{Sys: t.TempDir()}
	for name, file := range tree {
		path := filepath.Join(h.Sys, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, file.Data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	devices := filepath.Join(h.Sys, "bus/pci/devices")
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(devices, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("../0000:01:10.0", nic+"/virtfn0")
	link("../"+nic, "0000:01:10.0/physfn")
	link("../../drivers/vfio-pci", "0000:01:10.0/driver")
	s := Server{Dir: t.TempDir(), BootID: "b", Host: h}
	try := func(function, count, want string) {
		t.Helper()
		changes := []Change{{Function: function, Field: FieldNumVFs, Value: count}}
		if err := s.CarryOut(quiet(t), Request{BootID: "b", Number: 1, Changes: changes}); err != nil {
			t.Fatal(err)
		}
		var told answers
		if err := load(s.Dir, answersFile, &told); err != nil || len(told.Answers) != 1 {
			t.Fatalf("%+v, %v", told, err)
		}
		if got := told.Answers[0].Error; (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s of %s: %q, want %q", count, function, got, want)
		}
	}
	counted := func(function, want string) {
		t.Helper()
		if text, err := os.ReadFile(filepath.Join(devices, function, "sriov_numvfs")); err != nil || strings.TrimSpace(string(text)) != want {
			t.Errorf("%s has %q, %v; want %s", function, text, err, want)
		}
	}
	try(disk, "4", "is no network controller")
	counted(disk, "0")
	try(alone, "4", "has no sriov_totalvfs")
	try("0000:01:10.0", "4", "is a virtual function of "+nic)
	try(nic, "4", "virtual function 0000:01:10.0 is bound to vfio-pci")
	try(nic, "1", "")
	counted(nic, "1")
	if err := os.Remove(filepath.Join(devices, "0000:01:10.0/driver")); err != nil {
		t.Fatal(err)
	}
	try(nic, "9", "9 is more than ")
	counted(nic, "1")
	try(nic, "4", "")
	counted(nic, "4")
}

// A request of the kernel before is nobody's any more; one for a host without modprobe
// says what to do.
func TestServerAnswers(t *testing.T) {
	dir := t.TempDir()
	s := Server{Dir: dir, BootID: "b", Host: Host{Sys: t.TempDir(), ProcSys: t.TempDir()}, Root: t.TempDir()}
	wanted := Request{BootID: "a", Number: 7, Changes: []Change{{Field: "module/rdma_cm", Value: Present}}}
	if err := s.CarryOut(quiet(t), wanted); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, answersFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("answered to the kernel before: %v", err)
	}
	wanted.BootID = "b"
	if err := s.CarryOut(quiet(t), wanted); err != nil {
		t.Fatal(err)
	}
	var told answers
	if err := load(dir, answersFile, &told); err != nil || told.Number != 7 || !strings.Contains(told.Answers[0].Error, "the host has no modprobe") {
		t.Errorf("%+v, %v", told, err)
	}
	if err := os.WriteFile(filepath.Join(dir, requestFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); err == nil || !strings.Contains(err.Error(), requestFile) {
		t.Errorf("half a request: %v", err)
	}
}

// FuzzRequest: whatever stands in the request, nothing outside the allow lists is touched.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"bootID":"b","number":1,"changes":[{"field":"sysctl/kernel.numa_balancing","value":"0"}]}`))
	f.Add([]byte(`{"bootID":"b","changes":[{"function":"0000:01:00.0","field":"maxReadRequest","value":"256"},{"field":"module/../x","value":"absent"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r Request
		if json.Unmarshal(text, &r) != nil {
			return
		}
		root := t.TempDir()
		kept := filepath.Join(root, "kept")
		if err := os.WriteFile(kept, []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		// Modules are left out: unloading asks the kernel.
		r.Changes = slices.DeleteFunc(r.Changes, func(c Change) bool { return strings.HasPrefix(c.Field, FieldModule) })
		r.BootID = "b"
		s := Server{Dir: t.TempDir(), BootID: "b", Host: Host{Sys: filepath.Join(root, "sys"), ProcSys: filepath.Join(root, "proc/sys")}, Root: root}
		if err := s.CarryOut(quiet(t), r); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(root)
		data, errRead := os.ReadFile(kept)
		if err != nil || errRead != nil || len(entries) != 1 || string(data) != "kept" {
			t.Errorf("%v %q, %v, %v", entries, data, err, errRead)
		}
	})
}

// The guest's own modules, by its own modprobe: what comes along goes again, and what was
// there stays.
func TestGuestModules(t *testing.T) {
	if !hosttest.OnGuest() {
		t.Skip("unloads modules: only on the virtual machine (plumblab guest-test)")
	}
	modprobe := hostsModprobe("/")
	l := loader{host: Host{Sys: "/sys"}, dir: t.TempDir(), bootID: "b", modprobe: modprobe, remove: deleteModule}
	there := func(module string) bool {
		t.Helper()
		loaded, err := l.host.loaded(module)
		if err != nil {
			t.Fatal(err)
		}
		return loaded
	}
	if out, err := exec.CommandContext(t.Context(), "depmod").CombinedOutput(); err != nil {
		t.Fatalf("depmod: %v: %s", err, out)
	}
	t.Cleanup(func() { _, _ = modprobe(context.Background(), "rdma_ucm") })
	gone := []string{"rdma_ucm", "rdma_cm", "iw_cm", "ib_cm"}
	for _, m := range gone {
		if err := l.removeUnused(m); err != nil {
			t.Fatal(err)
		}
	}
	if builtIn, err := l.load(t.Context(), "rdma_ucm"); err != nil || builtIn || !there("rdma_ucm") || !there("rdma_cm") {
		t.Fatalf("built in %v, %v", builtIn, err)
	}
	if err := l.unload("rdma_ucm"); err != nil {
		t.Fatal(err)
	}
	for _, m := range gone {
		if there(m) {
			t.Errorf("module %s stays", m)
		}
	}
	if !there("ib_uverbs") {
		t.Error("module ib_uverbs was there before, and went")
	}
	if _, err := l.load(t.Context(), "gdrdrv"); err == nil || !strings.Contains(err.Error(), "gdrdrv") {
		t.Errorf("a module that the host lacks: %v", err)
	}
}
