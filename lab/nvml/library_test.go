// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
)

// driverRoot is the root of the only driver of this process: go-nvml's functions are bound
// to the first library that it opens, and stay so.
var driverRoot string

func TestMain(m *testing.M) {
	if steps := os.Getenv(otherProcess); steps != "" {
		os.Exit(beOtherProcess(steps))
	}
	var err error
	if driverRoot, err = os.MkdirTemp("", "nvml-standin-test-*"); err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(driverRoot) }()
	m.Run()
}

var compileOnce = sync.OnceValues(func() (string, error) {
	folder := filepath.Join(driverRoot, "usr", "lib")
	include, err := headerFolder(context.Background(), "..")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	return filepath.Join(folder, LibraryName), compile(context.Background(), include, folder, "-Werror")
})

// library is the stand-in with a table, asked through the bindings that NVIDIA's DRA
// driver uses.
func library(t *testing.T, text string) gonvml.Interface {
	t.Helper()
	needsCompiler(t)
	path, err := compileOnce()
	if err != nil {
		t.Fatal(err)
	}
	put(t, TablePath, text)
	t.Cleanup(func() { _ = os.Remove(filepath.Join(driverRoot, MIGPath)) })
	return gonvml.New(gonvml.WithLibraryPath(path))
}

// put writes a file of the driver's root, and removes it with the test.
func put(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join(driverRoot, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
}

// initialise begins, and ends with the test.
func initialise(t *testing.T, lib gonvml.Interface) {
	t.Helper()
	if ret := lib.InitWithFlags(gonvml.INIT_FLAG_NO_GPUS); ret != gonvml.SUCCESS {
		t.Fatalf("init: %v", ret)
	}
	t.Cleanup(func() {
		if ret := lib.Shutdown(); ret != gonvml.SUCCESS {
			t.Errorf("shutdown: %v", ret)
		}
	})
}

// a3 is the stand-in for the GPUs of an A3 Ultra.
func a3(t *testing.T) gonvml.Interface {
	t.Helper()
	lib := library(t, table(t, "a3-ultragpu-8g", "node-a"))
	initialise(t, lib)
	return lib
}

// asked collects answers that must come.
type asked struct{ t *testing.T }

func (a asked) ok(ret gonvml.Return) {
	a.t.Helper()
	if ret != gonvml.SUCCESS {
		a.t.Fatalf("an answer is %v", ret)
	}
}

func byIndex(t *testing.T, lib gonvml.Interface, index int) gonvml.Device {
	t.Helper()
	d, ret := lib.DeviceGetHandleByIndex(index)
	asked{t}.ok(ret)
	return d
}

func TestSystem(t *testing.T) {
	lib := a3(t)
	driver, ret1 := lib.SystemGetDriverVersion()
	version, ret2 := lib.SystemGetNVMLVersion()
	cuda, ret3 := lib.SystemGetCudaDriverVersion()
	got := fmt.Sprintln(driver, ret1, version, ret2, cuda, ret3)
	if want := "580.126.20 Success 13.580.126.20 Success 13000 Success\n"; got != want {
		t.Errorf("driver, NVML and CUDA are %swant %s", got, want)
	}
	if got := lib.ErrorString(gonvml.ERROR_GPU_IS_LOST); got != "GPU is lost" {
		t.Errorf("error string: %s", got)
	}
}

// describe is what NVIDIA's DRA driver reads of a GPU.
func describe(t *testing.T, d gonvml.Device) string {
	t.Helper()
	a := asked{t}
	index, ret := d.GetIndex()
	a.ok(ret)
	minor, ret := d.GetMinorNumber()
	a.ok(ret)
	id, ret := d.GetUUID()
	a.ok(ret)
	name, ret := d.GetName()
	a.ok(ret)
	brand, ret := d.GetBrand()
	a.ok(ret)
	architecture, ret := d.GetArchitecture()
	a.ok(ret)
	major, least, ret := d.GetCudaComputeCapability()
	a.ok(ret)
	memory, ret := d.GetMemoryInfo()
	a.ok(ret)
	mode, ret := d.GetAddressingMode()
	a.ok(ret)
	pci, ret := d.GetPciInfo()
	a.ok(ret)
	var bus strings.Builder
	for _, c := range pci.BusId {
		if c != 0 {
			bus.WriteByte(byte(c))
		}
	}
	return fmt.Sprintf("%d %d %s %s brand%d arch%d %d.%d %d addressing%d %s %08x", index, minor, id, name, brand, architecture,
		major, least, memory.Total>>20, mode.Value, bus.String(), pci.PciDeviceId)
}

func TestGPUs(t *testing.T) {
	lib := a3(t)
	count, ret := lib.DeviceGetCount()
	asked{t}.ok(ret)
	var got []string
	for i := range count {
		got = append(got, describe(t, byIndex(t, lib, i)))
	}
	const same = " NVIDIA H200 brand14 arch9 9.0 143771 addressing0 "
	want := []string{
		"0 0 GPU-5bf39e54-0ac9-569f-a928-28e55bb98fa1" + same + "00000000:8F:00.0 233510de",
		"1 1 GPU-b0a9f0c6-a8d9-5382-81e4-cee42bfb7378" + same + "00000000:90:00.0 233510de",
		"2 2 GPU-c1185b4d-efdc-5648-bce2-545db23a992d" + same + "00000000:96:00.0 233510de",
		"3 3 GPU-e91e7b99-3ffe-5124-9863-805d35c1db61" + same + "00000000:97:00.0 233510de",
		"4 4 GPU-927a07d6-3dd3-5a80-95a8-31c1700a3ed7" + same + "00000000:C4:00.0 233510de",
		"5 5 GPU-7c9e951c-6008-5aff-b557-b0dc816d49f2" + same + "00000000:C5:00.0 233510de",
		"6 6 GPU-470f3c05-785a-5d00-97bd-667df687ec11" + same + "00000000:CB:00.0 233510de",
		"7 7 GPU-6dd45372-e95f-5c9b-bc24-f138ea97715c" + same + "00000000:CC:00.0 233510de",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Every GPU is found by its UUID and by the forms of its address that NVML knows, again
// after a shutdown.
func TestHandles(t *testing.T) {
	lib := a3(t)
	first := byIndex(t, lib, 0)
	want, ret := first.GetUUID()
	asked{t}.ok(ret)
	for _, id := range []string{"0000:8f:00.0", "00000000:8F:00.0", "0000:8f:00", "8f:00.0"} {
		d, ret := lib.DeviceGetHandleByPciBusId(id)
		asked{t}.ok(ret)
		if got, _ := d.GetUUID(); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	asked{t}.ok(lib.Shutdown())
	if _, ret := first.GetUUID(); ret != gonvml.ERROR_UNINITIALIZED {
		t.Errorf("after the shutdown: %v", ret)
	}
	asked{t}.ok(lib.Init())
	d, ret := lib.DeviceGetHandleByUUID(want)
	asked{t}.ok(ret)
	if got, _ := d.GetIndex(); got != 0 {
		t.Errorf("%s is GPU %d", want, got)
	}
}

func TestUnknown(t *testing.T) {
	lib := a3(t)
	for id, want := range map[string]gonvml.Return{
		"0000:8e:00.0": gonvml.ERROR_NOT_FOUND, "0000:8f:00.1": gonvml.ERROR_NOT_FOUND,
		"": gonvml.ERROR_INVALID_ARGUMENT, "8f:00": gonvml.ERROR_INVALID_ARGUMENT, "0000:8f:00.0 ": gonvml.ERROR_INVALID_ARGUMENT,
		"0000:0x8f:00.0": gonvml.ERROR_INVALID_ARGUMENT, "0000:18f:00.0": gonvml.ERROR_INVALID_ARGUMENT,
	} {
		if _, ret := lib.DeviceGetHandleByPciBusId(id); ret != want {
			t.Errorf("address %q: %v, want %v", id, ret, want)
		}
	}
	if _, ret := lib.DeviceGetHandleByUUID("GPU-0"); ret != gonvml.ERROR_NOT_FOUND {
		t.Errorf("UUID: %v", ret)
	}
	for _, index := range []int{8, 64, -1} {
		if _, ret := lib.DeviceGetHandleByIndex(index); ret != gonvml.ERROR_INVALID_ARGUMENT {
			t.Errorf("index %d: %v", index, ret)
		}
	}
}

// What a stand-in lacks is refused, and ends no process.
func TestUnsupported(t *testing.T) {
	lib := library(t, table(t, "egx-t4-cx5", "node-a"))
	initialise(t, lib)
	d := byIndex(t, lib, 0)
	answers := map[string]gonvml.Return{}
	_, _, answers["MIG mode"] = d.GetMigMode()
	_, answers["MIG profile"] = d.GetGpuInstanceProfileInfo(0)
	_, answers["MIG placements"] = d.GetGpuInstancePossiblePlacements(&gonvml.GpuInstanceProfileInfo{})
	_, answers["MIG device"] = d.GetMigDeviceHandleByIndex(0)
	_, answers["fabric"] = d.GetGpuFabricInfo()
	_, answers["power"] = d.GetPowerUsage()
	answers["memory limits"] = d.SetMemoryLimits_v1("/", 0, 0)
	for what, ret := range answers {
		if ret != gonvml.ERROR_NOT_SUPPORTED {
			t.Errorf("%s: %v", what, ret)
		}
	}
	is, ret := d.IsMigDeviceHandle()
	count, ret2 := d.GetMaxMigDeviceCount()
	if is || count != 0 || ret != gonvml.SUCCESS || ret2 != gonvml.SUCCESS {
		t.Errorf("MIG device: %v %v, at most %d %v", is, ret, count, ret2)
	}
}

// A symbol that is missing ends the process that calls it, so there is every one that
// go-nvml calls.
func TestNoFunctionIsMissing(t *testing.T) {
	lib := a3(t)
	include, err := headerFolder(context.Background(), "..")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(include, "nvml.go"))
	if err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(`C\.(nvml\w+)\(`).FindAllSubmatch(source, -1)
	if len(calls) < 300 {
		t.Fatalf("found only %d functions in go-nvml", len(calls))
	}
	for _, call := range calls {
		if err := lib.Extensions().LookupSymbol(string(call[1])); err != nil {
			t.Error(err)
		}
	}
}

func TestMalformedTables(t *testing.T) {
	const gpu = "gpu 0000:8f:00.0 0 GPU-a 10de:2335 143771 Hopper 9.0 Nvidia NVIDIA H200\n"
	const profile = "mig 1g.18gb 0 19 1 7 16 1 1 1 0 16384 1 0,1 NVIDIA H200\n"
	const good = "driver 580.126.20\ncuda 13.0\n" + gpu
	lib := library(t, good)
	asked{t}.ok(lib.Init())
	asked{t}.ok(lib.Shutdown())
	put(t, TablePath, good+profile)
	asked{t}.ok(lib.Init())
	asked{t}.ok(lib.Shutdown())
	for name, text := range map[string]string{
		"empty":               "",
		"no driver":           strings.Replace(good, "driver", "#", 1),
		"no version":          strings.Replace(good, "580.126.20", "", 1),
		"driver twice":        good + "driver 1\n",
		"no cuda":             strings.Replace(good, "cuda", "#", 1),
		"cuda without minor":  strings.Replace(good, "13.0", "13", 1),
		"cuda twice":          good + "cuda 13.0\n",
		"unknown word":        good + "fpga 0\n",
		"a word alone":        good + "gpu\n",
		"column missing":      strings.Replace(good, " Nvidia NVIDIA H200", "", 1),
		"no name":             strings.Replace(good, "NVIDIA H200", "", 1),
		"two spaces":          strings.Replace(good, "Hopper ", "Hopper  ", 1),
		"address":             strings.Replace(good, "8f:00.0", "8g:00.0", 1),
		"function":            strings.Replace(good, "8f:00.0", "8f:00.1", 1),
		"minor number":        strings.Replace(good, " 0 GPU", " -1 GPU", 1),
		"minor beyond":        strings.Replace(good, " 0 GPU", " 256 GPU", 1),
		"UUID":                strings.Replace(good, "GPU-a", "MIG-a", 1),
		"id":                  strings.Replace(good, "10de:2335", "10de", 1),
		"memory":              strings.Replace(good, "143771", "140Gi", 1),
		"architecture":        strings.Replace(good, "Hopper", "Hoper", 1),
		"compute capability":  strings.Replace(good, "9.0", "9", 1),
		"brand":               strings.Replace(good, "Nvidia ", "nvidia ", 1),
		"same GPU twice":      good + gpu,
		"same UUID":           good + strings.NewReplacer("8f", "90", " 0 ", " 1 ").Replace(gpu),
		"a NUL":               strings.Replace(good, "Hopper", "Hopper\x00", 1),
		"profile's product":   good + strings.TrimSuffix(profile, " NVIDIA H200\n") + "\n",
		"profile's column":    good + strings.Replace(profile, " 16384", "", 1),
		"profile's name":      good + strings.Replace(profile, "1g.18gb", "", 1),
		"profile's number":    good + strings.Replace(profile, "gb 0", "gb 18", 1),
		"profile's starts":    good + strings.Replace(profile, "0,1", "0,0", 1),
		"profile's start":     good + strings.Replace(profile, "0,1", "0,32", 1),
		"same profile twice":  good + profile + profile,
		"name beyond buffers": strings.Replace(good, "H200", strings.Repeat("H", 96), 1),
	} {
		put(t, TablePath, text)
		if ret := lib.Init(); ret != gonvml.ERROR_UNKNOWN {
			t.Errorf("%s: init says %v", name, ret)
		}
		if _, ret := lib.DeviceGetCount(); ret != gonvml.ERROR_UNINITIALIZED {
			t.Errorf("%s: after a refused init, the count is %v", name, ret)
		}
	}
}

func TestUnknownMemory(t *testing.T) {
	lib := library(t, "driver 1\ncuda 13.0\ngpu 0000:8f:00.0 0 GPU-a 10de:2335 - Hopper 9.0 Nvidia NVIDIA H200\n")
	initialise(t, lib)
	if _, ret := byIndex(t, lib, 0).GetMemoryInfo(); ret != gonvml.ERROR_NOT_SUPPORTED {
		t.Errorf("memory: %v", ret)
	}
}

func TestWhereTheTableIs(t *testing.T) {
	lib := library(t, "driver 1.2.3\ncuda 13.0\n")
	elsewhere := filepath.Join(t.TempDir(), "table")
	if err := os.WriteFile(elsewhere, []byte("driver 4.5.6\ncuda 13.0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for named, want := range map[string]string{"": "1.2.3", elsewhere: "4.5.6"} {
		t.Setenv("NVML_STANDIN_GPUS", named)
		asked{t}.ok(lib.Init())
		if got, ret := lib.SystemGetDriverVersion(); got != want {
			t.Errorf("NVML_STANDIN_GPUS=%s: driver is %s (%v), want %s", named, got, ret, want)
		}
		asked{t}.ok(lib.Shutdown())
	}
	t.Setenv("NVML_STANDIN_GPUS", elsewhere+"-missing")
	if ret := lib.Init(); ret != gonvml.ERROR_DRIVER_NOT_LOADED {
		t.Errorf("no table: init says %v", ret)
	}
}

// tell appends to the file of events.
func tell(t *testing.T, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(driverRoot, EventsPath), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// listen makes a set of events of one GPU.
func listen(t *testing.T, lib gonvml.Interface, d gonvml.Device) gonvml.EventSet {
	t.Helper()
	set, ret := lib.EventSetCreate()
	asked{t}.ok(ret)
	t.Cleanup(func() { asked{t}.ok(set.Free()) })
	types, ret := d.GetSupportedEventTypes()
	asked{t}.ok(ret)
	if types&gonvml.EventTypeXidCriticalError == 0 {
		t.Fatalf("event types %#x have no XIDs", types)
	}
	asked{t}.ok(d.RegisterEvents(types, set))
	return set
}

func TestXID(t *testing.T) {
	put(t, EventsPath, "xid 0000:90:00.0 1\n")
	lib := a3(t)
	d := byIndex(t, lib, 1)
	set := listen(t, lib, d)
	if _, ret := set.Wait(1); ret != gonvml.ERROR_TIMEOUT {
		t.Errorf("what was before the set: %v", ret)
	}
	// One of a GPU that is not registered, a line that is not written to its end.
	tell(t, "xid 0000:8f:00.0 13\nhang 0000:90:00.0\nxid 0000:90:00.0 7")
	if _, ret := set.Wait(1); ret != gonvml.ERROR_TIMEOUT {
		t.Errorf("another GPU's, and half a line: %v", ret)
	}
	arrived := make(chan gonvml.EventData, 1)
	go func() {
		event, ret := set.Wait(60_000)
		if ret != gonvml.SUCCESS {
			t.Errorf("wait: %v", ret)
		}
		arrived <- event
	}()
	tell(t, "9\n")
	event := <-arrived
	got, _ := event.Device.GetIndex()
	if got != 1 || event.EventType != gonvml.EventTypeXidCriticalError || event.EventData != 79 ||
		event.GpuInstanceId != 0xffffffff || event.ComputeInstanceId != 0xffffffff {
		t.Errorf("GPU %d: %+v", got, event)
	}
	if _, ret := set.Wait(1); ret != gonvml.ERROR_TIMEOUT {
		t.Errorf("the same event again: %v", ret)
	}
	for _, malformed := range []string{"xid 0000:90:00.0", "xid 0000:90:00.0 many", "xid 0000:00:00.0 79", "lost 0000:90:00.0 79", "hang 0000:90:00.0 79", "hang", "burnt 0000:90:00.0"} {
		tell(t, malformed+"\n")
		if _, ret := set.Wait(1); ret != gonvml.ERROR_UNKNOWN {
			t.Errorf("%s: %v", malformed, ret)
		}
	}
}

func TestLostGPU(t *testing.T) {
	put(t, EventsPath, "")
	lib := a3(t)
	lost, other := byIndex(t, lib, 1), byIndex(t, lib, 2)
	set := listen(t, lib, other)
	tell(t, "lost 0000:90:00.0\n")
	if _, ret := set.Wait(1); ret != gonvml.ERROR_GPU_IS_LOST {
		t.Errorf("wait: %v", ret)
	}
	if _, ret := set.Wait(1); ret != gonvml.ERROR_TIMEOUT {
		t.Errorf("next wait: %v", ret)
	}
	check := func() {
		t.Helper()
		if _, ret := lost.GetUUID(); ret != gonvml.ERROR_GPU_IS_LOST {
			t.Errorf("the lost GPU: %v", ret)
		}
		if _, ret := other.GetUUID(); ret != gonvml.SUCCESS {
			t.Errorf("another GPU: %v", ret)
		}
	}
	check()
	asked{t}.ok(lib.Shutdown())
	asked{t}.ok(lib.Init())
	check()
	asked{t}.ok(lib.Shutdown())
	put(t, EventsPath, "")
	asked{t}.ok(lib.Init())
	if _, ret := lost.GetUUID(); ret != gonvml.SUCCESS {
		t.Errorf("the GPU that came back: %v", ret)
	}
}
