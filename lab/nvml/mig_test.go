// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
)

// profileOf is a profile of a GPU's by NVML's number.
func profileOf(t *testing.T, d gonvml.Device, number int) *gonvml.GpuInstanceProfileInfo {
	t.Helper()
	p, ret := d.GetGpuInstanceProfileInfo(number)
	asked{t}.ok(ret)
	return &p
}

// Each product's profiles and placements are those that nvidia-smi lists of it.
func TestMIGProfiles(t *testing.T) {
	for machine, want := range map[string][]string{
		"a3-ultragpu-8g": {
			"MIG 1g.18gb 19 7 16384 16/1/1/1/0 [{0 1} {1 1} {2 1} {3 1} {4 1} {5 1} {6 1}]",
			"MIG 2g.35gb 14 3 33280 32/2/2/2/0 [{0 2} {2 2} {4 2}]",
			"MIG 3g.71gb 9 2 71424 60/3/3/3/0 [{0 4} {4 4}]",
			"MIG 4g.71gb 5 1 71424 64/4/4/4/0 [{0 4}]",
			"MIG 7g.141gb 0 1 143360 132/8/7/7/1 [{0 8}]",
			"MIG 1g.18gb+me 20 1 16384 16/1/1/1/1 [{0 1} {1 1} {2 1} {3 1} {4 1} {5 1} {6 1}]",
			"MIG 1g.35gb 15 4 33280 26/1/1/1/0 [{0 2} {2 2} {4 2} {6 2}]",
		},
		"aws-p4d.24xlarge": {
			"MIG 1g.5gb 19 7 4864 14/1/0/0/0 [{0 1} {1 1} {2 1} {3 1} {4 1} {5 1} {6 1}]",
			"MIG 2g.10gb 14 3 9856 28/2/1/0/0 [{0 2} {2 2} {4 2}]",
			"MIG 3g.20gb 9 2 19968 42/3/2/0/0 [{0 4} {4 4}]",
			"MIG 4g.20gb 5 1 19968 56/4/2/0/0 [{0 4}]",
			"MIG 7g.40gb 0 1 40192 98/7/5/1/1 [{0 8}]",
			"MIG 1g.5gb+me 20 1 4864 14/1/1/1/1 [{0 1} {1 1} {2 1} {3 1} {4 1} {5 1} {6 1}]",
			"MIG 1g.10gb 15 4 9856 14/1/1/0/0 [{0 2} {2 2} {4 2} {6 2}]",
		},
	} {
		t.Run(machine, func(t *testing.T) {
			lib := library(t, table(t, machine, "n"))
			initialise(t, lib)
			d := byIndex(t, lib, 0)
			var got []string
			for number := range gonvml.GPU_INSTANCE_PROFILE_COUNT {
				p, ret := d.GetGpuInstanceProfileInfo(number)
				if ret == gonvml.ERROR_NOT_SUPPORTED {
					continue
				}
				asked{t}.ok(ret)
				second, ret := d.GetGpuInstanceProfileInfoV(number).V2()
				asked{t}.ok(ret)
				third, ret := d.GetGpuInstanceProfileInfoV(number).V3()
				asked{t}.ok(ret)
				if second.Id != p.Id || second.MemorySizeMB != p.MemorySizeMB || third.Id != p.Id || third.Name != second.Name {
					t.Errorf("profile %d: %+v, %+v, %+v", number, p, second, third)
				}
				placements, ret := d.GetGpuInstancePossiblePlacements(&p)
				asked{t}.ok(ret)
				got = append(got, fmt.Sprintf("%s %d %d %d %d/%d/%d/%d/%d %v", cString(second.Name[:]), p.Id, p.InstanceCount, p.MemorySizeMB,
					p.MultiprocessorCount, p.CopyEngineCount, p.DecoderCount, p.JpegCount, p.OfaCount, placements))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, ret := d.GetGpuInstanceProfileInfo(gonvml.GPU_INSTANCE_PROFILE_COUNT); ret != gonvml.ERROR_INVALID_ARGUMENT {
				t.Errorf("profile beyond: %v", ret)
			}
		})
	}
}

// cString is a C string as the bindings give it.
func cString(c []int8) string {
	var name strings.Builder
	for _, one := range c {
		if one == 0 {
			break
		}
		name.WriteByte(byte(one))
	}
	return name.String()
}

// inMIGMode is the first GPU of an A3 Ultra, whose mode is on.
func inMIGMode(t *testing.T) (gonvml.Interface, gonvml.Device) {
	t.Helper()
	lib := a3(t)
	d := byIndex(t, lib, 0)
	mode, ret := d.GetVirtualizationMode()
	asked{t}.ok(ret)
	if mode != gonvml.GPU_VIRTUALIZATION_MODE_NONE {
		t.Errorf("virtualisation mode %d", mode)
	}
	activation, ret := d.SetMigMode(gonvml.DEVICE_MIG_ENABLE)
	asked{t}.ok(ret)
	asked{t}.ok(activation)
	return lib, d
}

func TestMIGMode(t *testing.T) {
	lib := a3(t)
	d := byIndex(t, lib, 0)
	if _, ret := d.CreateGpuInstance(profileOf(t, d, 0)); ret != gonvml.ERROR_NOT_SUPPORTED {
		t.Errorf("an instance without the mode: %v", ret)
	}
	for _, step := range []struct{ mode, devices int }{{1, 7}, {1, 7}, {0, 0}} {
		activation, ret := d.SetMigMode(step.mode)
		asked{t}.ok(ret)
		asked{t}.ok(activation)
		current, pending, ret := d.GetMigMode()
		asked{t}.ok(ret)
		count, ret := d.GetMaxMigDeviceCount()
		asked{t}.ok(ret)
		if current != step.mode || pending != step.mode || count != step.devices {
			t.Errorf("mode %d: current %d, pending %d, %d devices", step.mode, current, pending, count)
		}
	}
	if _, ret := d.SetMigMode(2); ret != gonvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("mode 2: %v", ret)
	}
	other, _, ret := byIndex(t, lib, 1).GetMigMode()
	if other != 0 || ret != gonvml.SUCCESS {
		t.Errorf("another GPU is in mode %d: %v", other, ret)
	}
}

// An A100's mode waits for a reset.
func TestMIGModeOfAmpere(t *testing.T) {
	lib := library(t, table(t, "aws-p4d.24xlarge", "n"))
	initialise(t, lib)
	d := byIndex(t, lib, 0)
	activation, ret := d.SetMigMode(gonvml.DEVICE_MIG_ENABLE)
	asked{t}.ok(ret)
	current, pending, ret := d.GetMigMode()
	asked{t}.ok(ret)
	if activation != gonvml.ERROR_RESET_REQUIRED || current != 0 || pending != 1 {
		t.Errorf("current %d, pending %d: %v", current, pending, activation)
	}
}

// A MIG device is made, found in every way, and destroyed in order.
func TestMIGDevice(t *testing.T) {
	lib, gpu := inMIGMode(t)
	a := asked{t}
	p := profileOf(t, gpu, gonvml.GPU_INSTANCE_PROFILE_2_SLICE)
	gi, ret := gpu.CreateGpuInstanceWithPlacement(p, &gonvml.GpuInstancePlacement{Start: 4, Size: 2})
	a.ok(ret)
	info, ret := gi.GetInfo()
	a.ok(ret)
	if parent, _ := info.Device.GetIndex(); parent != 0 || info.ProfileId != 14 || info.Placement != (gonvml.GpuInstancePlacement{Start: 4, Size: 2}) {
		t.Errorf("instance of GPU %d: %+v", parent, info)
	}
	if _, ret := gpu.GetMigDeviceHandleByIndex(0); ret != gonvml.ERROR_NOT_FOUND {
		t.Errorf("a MIG device without a compute instance: %v", ret)
	}
	for number, want := range map[int]gonvml.Return{
		gonvml.COMPUTE_INSTANCE_PROFILE_1_SLICE: gonvml.ERROR_NOT_SUPPORTED, gonvml.COMPUTE_INSTANCE_PROFILE_COUNT: gonvml.ERROR_INVALID_ARGUMENT,
	} {
		if _, ret := gi.GetComputeInstanceProfileInfo(number, 0); ret != want {
			t.Errorf("compute profile %d: %v", number, ret)
		}
	}
	compute, ret := gi.GetComputeInstanceProfileInfo(gonvml.COMPUTE_INSTANCE_PROFILE_2_SLICE, 0)
	a.ok(ret)
	second, ret := gi.GetComputeInstanceProfileInfoV(gonvml.COMPUTE_INSTANCE_PROFILE_2_SLICE, 0).V2()
	a.ok(ret)
	if compute.SliceCount != 2 || compute.MultiprocessorCount != 32 || second.Id != compute.Id || cString(second.Name[:]) != "MIG 2g.35gb" {
		t.Errorf("compute profile: %+v, %+v", compute, second)
	}
	ci, ret := gi.CreateComputeInstance(&compute)
	a.ok(ret)
	if _, ret := gi.CreateComputeInstance(&compute); ret != gonvml.ERROR_INSUFFICIENT_RESOURCES {
		t.Errorf("a second compute instance: %v", ret)
	}
	ciInfo, ret := ci.GetInfo()
	a.ok(ret)
	first := aMIGDevice(t, ciInfo.Device)
	if want := fmt.Sprintf("GI %d CI %d of GPU 0: 32 SMs, 33280 MiB", info.Id, ciInfo.Id); !strings.HasPrefix(first, want) {
		t.Errorf("MIG device is %s, want %s", first, want)
	}
	byNumber, ret := gpu.GetMigDeviceHandleByIndex(0)
	a.ok(ret)
	_, id, _ := strings.Cut(first, "MIG-")
	byUUID, ret := lib.DeviceGetHandleByUUID("MIG-" + id)
	a.ok(ret)
	for how, d := range map[string]gonvml.Device{"index": byNumber, "UUID": byUUID} {
		if got := aMIGDevice(t, d); got != first {
			t.Errorf("by %s: %s, want %s", how, got, first)
		}
	}
	all, ret := gpu.GetGpuInstances(p)
	a.ok(ret)
	if len(all) != 1 {
		t.Errorf("%d instances of the profile", len(all))
	}
	if ret := gi.Destroy(); ret != gonvml.ERROR_IN_USE {
		t.Errorf("destroy an instance that has a compute instance: %v", ret)
	}
	if activation, ret := gpu.SetMigMode(gonvml.DEVICE_MIG_DISABLE); ret != gonvml.SUCCESS || activation != gonvml.ERROR_IN_USE {
		t.Errorf("end the mode of a GPU with an instance: %v, %v", ret, activation)
	}
	found, ret := gpu.GetGpuInstanceById(int(info.Id))
	a.ok(ret)
	ci, ret = found.GetComputeInstanceById(int(ciInfo.Id))
	a.ok(ret)
	a.ok(ci.Destroy())
	if _, ret := byNumber.GetUUID(); ret != gonvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("a MIG device that is gone: %v", ret)
	}
	if _, ret := found.GetComputeInstanceById(0); ret != gonvml.ERROR_NOT_FOUND {
		t.Errorf("a compute instance that is gone: %v", ret)
	}
	ci, ret = found.CreateComputeInstance(&compute)
	a.ok(ret)
	ciInfo, ret = ci.GetInfo()
	a.ok(ret)
	if again := aMIGDevice(t, ciInfo.Device); again == first {
		t.Errorf("a MIG device that is made anew has the UUID of the last: %s", again)
	}
	a.ok(ci.Destroy())
	a.ok(found.Destroy())
	if _, ret := gpu.GetGpuInstanceById(int(info.Id)); ret != gonvml.ERROR_NOT_FOUND {
		t.Errorf("an instance that is gone: %v", ret)
	}
	activation, ret := gpu.SetMigMode(gonvml.DEVICE_MIG_DISABLE)
	a.ok(ret)
	a.ok(activation)
}

// aMIGDevice is what NVIDIA's DRA driver asks of a MIG device.
func aMIGDevice(t *testing.T, d gonvml.Device) string {
	t.Helper()
	a := asked{t}
	is, ret := d.IsMigDeviceHandle()
	a.ok(ret)
	if !is {
		t.Error("is no MIG device")
	}
	gi, ret := d.GetGpuInstanceId()
	a.ok(ret)
	ci, ret := d.GetComputeInstanceId()
	a.ok(ret)
	parent, ret := d.GetDeviceHandleFromMigDeviceHandle()
	a.ok(ret)
	if is, _ := parent.IsMigDeviceHandle(); is {
		t.Error("the parent is a MIG device")
	}
	index, ret := parent.GetIndex()
	a.ok(ret)
	attributes, ret := d.GetAttributes()
	a.ok(ret)
	id, ret := d.GetUUID()
	a.ok(ret)
	return fmt.Sprintf("GI %d CI %d of GPU %d: %d SMs, %d MiB, %s", gi, ci, index, attributes.MultiprocessorCount, attributes.MemorySizeMB, id)
}

// Instances neither overlap nor are more than a profile allows.
func TestMIGPlacements(t *testing.T) {
	_, d := inMIGMode(t)
	at := func(number, start int) gonvml.Return {
		t.Helper()
		p := profileOf(t, d, number)
		placements, ret := d.GetGpuInstancePossiblePlacements(p)
		asked{t}.ok(ret)
		_, ret = d.CreateGpuInstanceWithPlacement(p, &gonvml.GpuInstancePlacement{Start: uint32(start), Size: placements[0].Size})
		return ret
	}
	const small, media, memory, half, whole = gonvml.GPU_INSTANCE_PROFILE_1_SLICE, gonvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1,
		gonvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2, gonvml.GPU_INSTANCE_PROFILE_3_SLICE, gonvml.GPU_INSTANCE_PROFILE_7_SLICE
	for _, step := range []struct {
		number, start int
		want          gonvml.Return
	}{
		{half, 2, gonvml.ERROR_INVALID_ARGUMENT}, {half, 32, gonvml.ERROR_INVALID_ARGUMENT},
		{half, 4, gonvml.SUCCESS}, {half, 4, gonvml.ERROR_INSUFFICIENT_RESOURCES},
		{whole, 0, gonvml.ERROR_INSUFFICIENT_RESOURCES}, {small, 5, gonvml.ERROR_INSUFFICIENT_RESOURCES},
		{media, 0, gonvml.SUCCESS}, {media, 1, gonvml.ERROR_INSUFFICIENT_RESOURCES},
		{memory, 0, gonvml.ERROR_INSUFFICIENT_RESOURCES}, {memory, 2, gonvml.SUCCESS}, {small, 1, gonvml.SUCCESS},
	} {
		if ret := at(step.number, step.start); ret != step.want {
			t.Errorf("profile %d at %d: %v, want %v", step.number, step.start, ret, step.want)
		}
	}
	if _, ret := d.CreateGpuInstance(profileOf(t, d, small)); ret != gonvml.ERROR_INSUFFICIENT_RESOURCES {
		t.Errorf("an instance without a place: %v", ret)
	}
	if _, ret := d.CreateGpuInstance(&gonvml.GpuInstanceProfileInfo{Id: 1}); ret != gonvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("a profile that the product lacks: %v", ret)
	}
	if _, ret := d.GetGpuInstanceId(); ret != gonvml.ERROR_NOT_SUPPORTED {
		t.Errorf("the instance of a whole GPU: %v", ret)
	}
}

// A GPU that hangs keeps who makes an instance in it waiting, with the state of MIG in hand.
func TestHangingGPU(t *testing.T) {
	put(t, EventsPath, "hang 0000:90:00.0\n")
	_, d := inMIGMode(t)
	if _, ret := d.CreateGpuInstance(profileOf(t, d, gonvml.GPU_INSTANCE_PROFILE_1_SLICE)); ret != gonvml.SUCCESS {
		t.Fatalf("an instance while another GPU hangs: %v", ret)
	}
	profile := profileOf(t, d, gonvml.GPU_INSTANCE_PROFILE_3_SLICE)
	tell(t, "hang 0000:8f:00.0\n")
	returned := make(chan gonvml.Return, 1)
	go func() {
		_, ret := d.CreateGpuInstance(profile)
		returned <- ret
	}()
	folder, err := os.Open(filepath.Dir(filepath.Join(driverRoot, MIGPath)))
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	for inHand := 0; inHand < 3; time.Sleep(50 * time.Millisecond) {
		if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			inHand++
			continue
		}
		if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		select {
		case ret := <-returned:
			t.Fatalf("returned: %v", ret)
		default:
		}
	}
	if err := os.WriteFile(filepath.Join(driverRoot, EventsPath), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if ret := <-returned; ret != gonvml.SUCCESS {
		t.Errorf("after the GPU hung: %v", ret)
	}
}
