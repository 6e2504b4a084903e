// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/procfs"
	"plumbline.dev/plumbline/internal/machine"
)

// otherProcess in the environment has this program be another process, which asks the
// library that it names for what comes after it.
const otherProcess = "PLUMBLINE_TEST_NVML"

// beOtherProcess lists the MIG devices of the first GPU, makes one where there is room, or
// destroys all.
func beOtherProcess(steps string) int {
	what, path, _ := strings.Cut(steps, " ")
	lib := gonvml.New(gonvml.WithLibraryPath(path))
	if ret := lib.Init(); ret != gonvml.SUCCESS {
		fmt.Fprintln(os.Stdout, ret)
		return 1
	}
	d, _ := lib.DeviceGetHandleByIndex(0)
	var ret gonvml.Return
	switch what {
	case "list":
		for _, one := range migDevices(d) {
			fmt.Fprintln(os.Stdout, one)
		}
	case "create":
		_, ret = makeMIGDevice(d, gonvml.GPU_INSTANCE_PROFILE_1_SLICE)
	case "destroy":
		ret = destroyAll(d)
	}
	if ret != gonvml.SUCCESS {
		fmt.Fprintln(os.Stdout, ret)
		return 1
	}
	return 0 // without a shutdown: as a process that is killed
}

// another has another process do something, and returns what it says.
func another(t *testing.T, what string) string {
	t.Helper()
	path, err := compileOnce()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), otherProcess+"="+what+" "+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", what, err, out)
	}
	return string(out)
}

func makeMIGDevice(d gonvml.Device, number int) (gonvml.Device, gonvml.Return) {
	if _, ret := d.SetMigMode(gonvml.DEVICE_MIG_ENABLE); ret != gonvml.SUCCESS {
		return nil, ret
	}
	p, ret := d.GetGpuInstanceProfileInfo(number)
	if ret != gonvml.SUCCESS {
		return nil, ret
	}
	gi, ret := d.CreateGpuInstance(&p)
	if ret != gonvml.SUCCESS {
		return nil, ret
	}
	compute, ret := gi.GetComputeInstanceProfileInfo(number, 0)
	if ret != gonvml.SUCCESS {
		return nil, ret
	}
	ci, ret := gi.CreateComputeInstance(&compute)
	if ret != gonvml.SUCCESS {
		return nil, ret
	}
	info, ret := ci.GetInfo()
	return info.Device, ret
}

// migDevices are all MIG devices of a GPU, as NVIDIA's DRA driver looks for them.
func migDevices(d gonvml.Device) []string {
	var all []string
	count, _ := d.GetMaxMigDeviceCount()
	for i := range count {
		m, ret := d.GetMigDeviceHandleByIndex(i)
		if ret != gonvml.SUCCESS {
			continue
		}
		instance, _ := m.GetGpuInstanceId()
		id, _ := m.GetUUID()
		gi, _ := d.GetGpuInstanceById(instance)
		info, _ := gi.GetInfo()
		all = append(all, fmt.Sprintf("GI %d profile %d at %d: %s", instance, info.ProfileId, info.Placement.Start, id))
	}
	return all
}

func destroyAll(d gonvml.Device) gonvml.Return {
	count, _ := d.GetMaxMigDeviceCount()
	for id := range count {
		gi, ret := d.GetGpuInstanceById(id + 1)
		if ret == gonvml.ERROR_NOT_FOUND {
			continue
		}
		if ret != gonvml.SUCCESS {
			return ret
		}
		if ci, ret := gi.GetComputeInstanceById(0); ret == gonvml.SUCCESS {
			if ret := ci.Destroy(); ret != gonvml.SUCCESS {
				return ret
			}
		}
		if ret := gi.Destroy(); ret != gonvml.SUCCESS {
			return ret
		}
	}
	_, ret := d.SetMigMode(gonvml.DEVICE_MIG_DISABLE)
	return ret
}

// What a process makes is there for another one, and for those that begin later: a MIG
// device outlives NVIDIA's DRA driver.
func TestMIGOfTwoProcesses(t *testing.T) {
	lib := library(t, table(t, "a3-ultragpu-8g", "node-a"))
	if ret := lib.Init(); ret != gonvml.SUCCESS {
		t.Fatal(ret)
	}
	d := byIndex(t, lib, 0)
	m, ret := makeMIGDevice(d, gonvml.GPU_INSTANCE_PROFILE_2_SLICE)
	asked{t}.ok(ret)
	first, ret := m.GetUUID()
	asked{t}.ok(ret)
	want := "GI 1 profile 14 at 0: " + first + "\n"
	if got := another(t, "list"); got != want {
		t.Errorf("another process sees %q, want %q", got, want)
	}
	another(t, "create")
	here := migDevices(d)
	if len(here) != 2 || here[0]+"\n" != want || !strings.HasPrefix(here[1], "GI 2 profile 19 at 2: MIG-") || strings.HasSuffix(here[1], first) {
		t.Errorf("with what another process made: %q", here)
	}
	asked{t}.ok(lib.Shutdown())
	initialise(t, lib)
	d = byIndex(t, lib, 0)
	if diff := cmp.Diff(here, migDevices(d)); diff != "" {
		t.Errorf("after a shutdown (-want +got):\n%s", diff)
	}
	another(t, "destroy")
	if _, ret := m.GetUUID(); ret != gonvml.ERROR_NOT_SUPPORTED {
		t.Errorf("a MIG device that another process destroyed: %v", ret)
	}
	if current, pending, ret := d.GetMigMode(); current != 0 || pending != 0 || ret != gonvml.SUCCESS {
		t.Errorf("mode %d, pending %d: %v", current, pending, ret)
	}
}

// Processes that make instances at the same time are given one each.
func TestMIGOfManyProcesses(t *testing.T) {
	lib := a3(t)
	var all sync.WaitGroup
	for range 7 {
		all.Go(func() { another(t, "create") })
	}
	all.Wait()
	seen := map[string]bool{}
	for _, one := range migDevices(byIndex(t, lib, 0)) {
		seen[one[strings.Index(one, "MIG-"):]] = true
	}
	if len(seen) != 7 {
		t.Errorf("%d MIG devices: %v", len(seen), seen)
	}
}

// Below the root's /proc/driver the library shows instances by the numbers that the list
// of all of them has.
func TestCapabilities(t *testing.T) {
	facts, err := machine.OpenFacts("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	files := Proc(facts, "n")
	for path, text := range files {
		put(t, ProcDriver+"/"+path, string(text))
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(driverRoot, "proc")) })
	minors := procfs.ParseMIGMinors(files["nvidia-caps/mig-minors"])
	lib := a3(t)
	d := byIndex(t, lib, 6)
	_, ret := makeMIGDevice(d, gonvml.GPU_INSTANCE_PROFILE_3_SLICE)
	asked{t}.ok(ret)
	_, ret = makeMIGDevice(d, gonvml.GPU_INSTANCE_PROFILE_1_SLICE)
	asked{t}.ok(ret)
	compute := 0
	for path, want := range map[string]procfs.MIGInstance{
		"gi1/access": {GPU: 6, Instance: 1}, "gi1/ci0/access": {GPU: 6, Instance: 1, Compute: &compute},
		"gi2/access": {GPU: 6, Instance: 2}, "gi2/ci0/access": {GPU: 6, Instance: 2, Compute: &compute},
	} {
		text, err := os.ReadFile(filepath.Join(driverRoot, ProcDriver, "nvidia/capabilities/gpu6/mig", path))
		if err != nil {
			t.Error(err)
			continue
		}
		minor, err := procfs.ParseCapabilityMinor(text)
		if diff := cmp.Diff(want, minors[minor]); err != nil || diff != "" {
			t.Errorf("%s says %q, %v, which is (-want +got):\n%s", path, text, err, diff)
		}
	}
	asked{t}.ok(destroyAll(d))
	left, err := os.ReadDir(filepath.Join(driverRoot, ProcDriver, "nvidia/capabilities/gpu6/mig"))
	if err != nil || len(left) != 0 {
		t.Errorf("left of instances that are gone: %v, %v", left, err)
	}
}

// What cannot be kept is not made.
func TestMIGThatCannotBeKept(t *testing.T) {
	lib, d := inMIGMode(t)
	if err := os.Mkdir(filepath.Join(driverRoot, MIGPath+".new"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(filepath.Join(driverRoot, MIGPath+".new")) })
	if _, ret := d.CreateGpuInstance(profileOf(t, d, 0)); ret != gonvml.ERROR_OPERATING_SYSTEM {
		t.Errorf("an instance: %v", ret)
	}
	if _, ret := d.GetGpuInstanceById(1); ret != gonvml.ERROR_NOT_FOUND {
		t.Errorf("the instance that was refused: %v", ret)
	}
	if _, ret := byIndex(t, lib, 1).SetMigMode(gonvml.DEVICE_MIG_ENABLE); ret != gonvml.ERROR_OPERATING_SYSTEM {
		t.Errorf("the mode: %v", ret)
	}
}

func TestMalformedState(t *testing.T) {
	lib := a3(t)
	d := byIndex(t, lib, 0)
	for name, text := range map[string]string{
		"a word":                "made\n",
		"no GPU":                "mode 0000:00:00.0 1 1\n",
		"no mode":               "mode 0000:8f:00.0 2 1\n",
		"too much":              "mode 0000:8f:00.0 1 1 1\n",
		"no profile":            "instance 0000:8f:00.0 1 99 0\n",
		"a start of no profile": "instance 0000:8f:00.0 1 9 1\n",
		"no such instance":      "instance 0000:8f:00.0 8 9 0\n",
		"twice":                 "instance 0000:8f:00.0 1 9 0\ninstance 0000:8f:00.0 1 9 4\n",
	} {
		put(t, MIGPath, text)
		if _, _, ret := d.GetMigMode(); ret != gonvml.ERROR_UNKNOWN {
			t.Errorf("%s: %v", name, ret)
		}
	}
	put(t, MIGPath, "made 4\nmode 0000:8f:00.0 1 1\ninstance 0000:8f:00.0 3 9 4 MIG-1\n")
	if got, want := strings.Join(migDevices(d), ", "), "GI 3 profile 9 at 4: MIG-1"; got != want {
		t.Errorf("MIG devices %q, want %q", got, want)
	}
}

// The kernel driver's files call GPUs as the library does, which a device plugin has them by.
func TestUUIDsOfProc(t *testing.T) {
	facts, err := machine.OpenFacts("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	table, err := Table(facts, "n")
	if err != nil {
		t.Fatal(err)
	}
	gpus := facts.ModelGPUs()
	if len(gpus) == 0 {
		t.Fatal("the machine has no GPU")
	}
	for _, gpu := range gpus {
		id, err := procfs.ParseGPUUUID(Proc(facts, "n")["nvidia/gpus/"+gpu.PCI.String()+"/information"])
		if line := fmt.Sprintf("gpu %s %d %s ", gpu.PCI, gpu.Index, id); err != nil || !strings.Contains(string(table), line) {
			t.Errorf("%s: UUID %q, %v; the table has no line %q", gpu.PCI, id, err, line)
		}
	}
}
