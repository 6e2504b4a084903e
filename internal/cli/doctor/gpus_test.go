// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"net/http"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// sliceOf has devices of a driver, as many with a root as roots.
func sliceOf(driver, node string, devices, roots int) resourceapi.ResourceSlice {
	s := resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver}, Spec: resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node}}
	for i := range devices {
		d := resourceapi.Device{Name: "gpu", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"driverVersion": {VersionValue: new("570.86.15")}}}
		if i < roots {
			d.Attributes[slicecodec.AttrPCIeRoot] = resourceapi.DeviceAttribute{StringValue: new("pci0000:00")}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

// What NVIDIA's driver publishes is compared with what the node has.
func TestGPUsOfNVIDIA(t *testing.T) {
	for name, tc := range map[string]struct {
		slices []resourceapi.ResourceSlice
		want   string
		code   int
	}{
		"all of them":     {[]resourceapi.ResourceSlice{sliceOf(gpuDriver, "gpu-0", 1, 1)}, "1 device, kernel driver 570.86.15", 0},
		"without a root":  {[]resourceapi.ResourceSlice{sliceOf(gpuDriver, "gpu-0", 2, 1)}, "1 of 2 devices without resource.kubernetes.io/pcieRoot", exitWrong},
		"of another node": {[]resourceapi.ResourceSlice{sliceOf(gpuDriver, "gpu-1", 1, 1)}, "publishes none of the node's 1 GPU", exitWrong},
		"none":            {[]resourceapi.ResourceSlice{sliceOf("dra.net", "gpu-0", 2, 2)}, "publishes no GPU: a device plugin", 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{slices: tc.slices}
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
}
