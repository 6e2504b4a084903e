// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	quantities "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// sliceOf has devices of a driver, as many with a root as roots.
func sliceOf(driver, node string, devices, roots int) resourceapi.ResourceSlice {
	s := resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver}, Spec: resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node}}
	for i := range devices {
		d := resourceapi.Device{Name: "gpu", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"driverVersion": {VersionValue: new("570.86.15")}, slicecodec.AttrNUMANode: {IntValue: new(int64(0))},
		}}
		if i < roots {
			d.Attributes[slicecodec.AttrPCIeRoot] = resourceapi.DeviceAttribute{StringValue: new("pci0000:00")}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

// What NVIDIA's driver publishes is compared with what the node has. A driver that is gone
// from a node, or from all, has left no slice to tell of it.
func TestGPUsOfNVIDIA(t *testing.T) {
	const gone = "publishes none of the node's 1 GPU"
	for name, tc := range map[string]struct {
		slices  []resourceapi.ResourceSlice
		classes []string
		want    string
		code    int
	}{
		"all of them":         {[]resourceapi.ResourceSlice{sliceOf(gpuDriver, "gpu-0", 1, 1)}, nil, "1 device, kernel driver 570.86.15", 0},
		"without a root":      {[]resourceapi.ResourceSlice{sliceOf(gpuDriver, "gpu-0", 2, 1)}, nil, "1 of 2 devices without resource.kubernetes.io/pcieRoot", exitWrong},
		"of another node":     {[]resourceapi.ResourceSlice{sliceOf(gpuDriver, "gpu-1", 1, 1)}, nil, gone, exitWrong},
		"gone from all nodes": {[]resourceapi.ResourceSlice{}, []string{gpuDriver}, gone, exitWrong},
		"none":                {[]resourceapi.ResourceSlice{sliceOf("dra.net", "gpu-0", 2, 2)}, []string{"dranet.net"}, "publishes no GPU of any node", 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{slices: tc.slices, classes: tc.classes}
			a.add("gpu-0", recorded(t)["ready"])
			for _, of := range [][]string{{"--node", "gpu-0"}, {"-A"}} {
				text, code, err := a.run(t, append(of, "--all")...)
				if err != nil || code != tc.code || !strings.Contains(text, tc.want) {
					t.Errorf("%q: exit code %d, %v, want %d and %q:\n%s", of, code, err, tc.code, tc.want, text)
				}
			}
		})
	}
}

// A device plugin and NVIDIA's DRA driver on one node are two owners of its GPUs.
func TestTwoOwnersOfGPUs(t *testing.T) {
	for name, tc := range map[string]struct {
		slices      []resourceapi.ResourceSlice
		allocatable corev1.ResourceList
		want        string
		code        int
	}{
		"both":                    {[]resourceapi.ResourceSlice{sliceOf(gpuDriver, "gpu-0", 1, 1)}, corev1.ResourceList{"nvidia.com/gpu": quantities.MustParse("8"), "cpu": quantities.MustParse("4")}, "publishes 1 device, and a device plugin offers 8 nvidia.com/gpu", exitWrong},
		"parts and shares":        {[]resourceapi.ResourceSlice{sliceOf(gpuDriver, "gpu-0", 1, 1)}, corev1.ResourceList{"nvidia.com/mig-1g.18gb": quantities.MustParse("7"), "nvidia.com/gpu.shared": quantities.MustParse("2")}, "offers 2 nvidia.com/gpu.shared, 7 nvidia.com/mig-1g.18gb", exitWrong},
		"a plugin that has gone":  {[]resourceapi.ResourceSlice{sliceOf(gpuDriver, "gpu-0", 1, 1)}, corev1.ResourceList{"nvidia.com/gpu": quantities.MustParse("0")}, "1 device, kernel driver 570.86.15", 0},
		"the device plugin alone": {[]resourceapi.ResourceSlice{}, corev1.ResourceList{"nvidia.com/gpu": quantities.MustParse("8")}, "publishes no GPU of the node: a device plugin offers 8 nvidia.com/gpu", 0},
		"the device plugin here":  {[]resourceapi.ResourceSlice{sliceOf(gpuDriver, "gpu-1", 1, 1)}, corev1.ResourceList{"nvidia.com/gpu": quantities.MustParse("8")}, "publishes no GPU of the node: a device plugin offers 8 nvidia.com/gpu", 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{slices: tc.slices}
			a.add("gpu-0", recorded(t)["ready"])
			a.nodes[0].Status.Allocatable = tc.allocatable
			for _, of := range [][]string{{"--node", "gpu-0"}, {"-A"}} {
				text, code, err := a.run(t, append(of, "--all")...)
				if err != nil || code != tc.code || !strings.Contains(text, tc.want) {
					t.Errorf("%q: exit code %d, %v, want %d and %q:\n%s", of, code, err, tc.code, tc.want, text)
				}
			}
		})
	}
}

// Two drivers that write the same slices over and over are two publishers. One that took
// over from another, or a person who looked in long ago, is none.
func TestTwoPublishersOfGPUs(t *testing.T) {
	for name, tc := range map[string]struct {
		ago  time.Duration
		want string
		code int
	}{
		"at once":             {time.Minute, "written by gpu-kubelet-plugin and plumbline-agent within minutes", exitWrong},
		"one after the other": {time.Hour, "1 device, kernel driver 570.86.15", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := sliceOf(gpuDriver, "gpu-0", 1, 1)
			for manager, ago := range map[string]time.Duration{"gpu-kubelet-plugin": 0, "plumbline-agent": tc.ago} {
				s.ManagedFields = append(s.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Time: &metav1.Time{Time: time.Now().Add(-ago)}})
			}
			a := &api{slices: []resourceapi.ResourceSlice{s}}
			a.add("gpu-0", recorded(t)["ready"])
			for _, of := range [][]string{{"--node", "gpu-0"}, {"-A"}} {
				text, code, err := a.run(t, append(of, "--all")...)
				if err != nil || code != tc.code || !strings.Contains(text, tc.want) {
					t.Errorf("%q: exit code %d, %v, want %d and %q:\n%s", of, code, err, tc.code, tc.want, text)
				}
			}
		})
	}
}

// Of GPUs nothing is said without the right to list slices, nor of a node without any.
func TestGPUsThatNobodyTells(t *testing.T) {
	a := &api{slices: []resourceapi.ResourceSlice{}, refused: map[string]int{"/resourceslices": http.StatusForbidden}}
	a.add("gpu-0", recorded(t)["ready"])
	if text, code, err := a.run(t, "-A", "--all"); err != nil || code != 0 || strings.Contains(text, checkGPUs) {
		t.Errorf("exit code %d, %v:\n%s", code, err, text)
	}
	without := recorded(t)["ready"]
	without.Profile.Devices = nil
	b := &api{slices: []resourceapi.ResourceSlice{}}
	b.add("cpu-0", without)
	if text, code, err := b.run(t, "-A", "--all"); err != nil || code != 0 || strings.Contains(text, checkGPUs) {
		t.Errorf("exit code %d, %v:\n%s", code, err, text)
	}
	// What is published is told of all the same.
	c := &api{slices: []resourceapi.ResourceSlice{sliceOf(gpuDriver, "cpu-0", 2, 1)}}
	c.add("cpu-0", without)
	if text, code, err := c.run(t, "-A"); err != nil || code != exitWrong || !strings.Contains(text, "1 of 2 devices without") {
		t.Errorf("exit code %d, %v:\n%s", code, err, text)
	}
}

// A release of NVIDIA's DRA driver that publishes no NUMA node is told by that, with the
// one that does, and what claims can compare.
func TestReleasesOfNVIDIA(t *testing.T) {
	const older = "none with resource.kubernetes.io/numaNode: NVIDIA's DRA driver is older than v0.5.0, or the kernel names no NUMA node of a GPU"
	for release, old := range map[string]bool{"0.4.0": true, "0.4.1": true, "0.5.0": false} {
		t.Run(release, func(t *testing.T) {
			slice := recordedSlice(t, "nvidia-"+release)
			slice.Spec.NodeName = new("gpu-0")
			a := &api{slices: []resourceapi.ResourceSlice{slice}}
			a.add("gpu-0", recorded(t)["ready"])
			for _, of := range [][]string{{"--node", "gpu-0"}, {"-A"}} {
				text, code, err := a.run(t, append(of, "--all")...)
				words := strings.Join(strings.Fields(text), " ")
				if err != nil || code != 0 || !strings.Contains(words, "kernel driver 580.126.20") || strings.Contains(words, older) != old {
					t.Errorf("%q: exit code %d, %v:\n%s", of, code, err, text)
				}
				if old && !strings.Contains(words, "install NVIDIA's DRA driver for GPUs, v0.5.0 or newer") {
					t.Errorf("%q names no fix:\n%s", of, text)
				}
			}
		})
	}
}

// recordedSlice is what a release publishes.
func recordedSlice(t *testing.T, name string) resourceapi.ResourceSlice {
	t.Helper()
	text, err := os.ReadFile("../../model/slicecodec/testdata/nvidia/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var slice resourceapi.ResourceSlice
	if err := yaml.UnmarshalStrict(text, &slice); err != nil {
		t.Fatal(err)
	}
	return slice
}
