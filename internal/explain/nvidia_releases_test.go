// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"os"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/explain"
	. "plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// ofRelease is an A3 Ultra whose GPUs a release of NVIDIA's driver publishes, beside the
// NICs and CPUs of plumbline's drivers, or of those of GKE's tutorial, which have the
// older name of the NUMA node alone.
func ofRelease(t *testing.T, release string, tutorial bool) snapshot.Objects {
	t.Helper()
	content, err := os.ReadFile("../model/slicecodec/testdata/nvidia/nvidia-" + release + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var recorded resourceapi.ResourceSlice
	if err := yaml.UnmarshalStrict(content, &recorded); err != nil {
		t.Fatal(err)
	}
	s := A3(t, 1)
	slicesOf(&s, "gpu.nvidia.com")[0].Spec.Devices = recorded.Spec.Devices
	if tutorial {
		for _, driver := range []string{"dra.net", "dra.cpu"} {
			devices(&s, driver, func(_ int, d *resourceapi.Device) { delete(d.Attributes, slicecodec.AttrNUMANode) })
		}
	}
	return s
}

// A claim that compares the NUMA node of GPUs is told which release of NVIDIA's driver
// publishes it, and gets one that works with the release that there is.
func TestReleasesOfNVIDIA(t *testing.T) {
	const (
		since  = "NVIDIA's driver publishes it from v0.5.0 on, and only where the kernel names a NUMA node; every release can compare resource.kubernetes.io/pcieRoot with a NIC's"
		legacy = "NVIDIA's driver publishes resource.kubernetes.io/numaNode instead, from v0.5.0 on, and only where"
		other  = "NVIDIA's driver publishes resource.kubernetes.io/numaNode instead"
	)
	pairs := []resourceapi.DeviceRequest{gpus(1), nics(1)}
	three := []resourceapi.DeviceRequest{gpus(1), nics(1), cpus("4")}
	for name, tc := range map[string]struct {
		release   string
		tutorial  bool
		requests  []resourceapi.DeviceRequest
		attribute string
		says, fix string
	}{
		"v0.4.0, a pair":                        {"0.4.0", false, pairs, slicecodec.AttrNUMANode, since, "compare resource.kubernetes.io/pcieRoot of gpu, nic instead of resource.kubernetes.io/numaNode in constraint 0"},
		"v0.4.1, a pair":                        {"0.4.1", false, pairs, slicecodec.AttrNUMANode, since, "compare resource.kubernetes.io/pcieRoot of gpu, nic instead of"},
		"v0.4.1, with CPUs":                     {"0.4.1", false, three, slicecodec.AttrNUMANode, since, "compare resource.kubernetes.io/pcieRoot of gpu, nic and resource.kubernetes.io/numaNode of nic, cpu instead of"},
		"v0.4.0, the tutorial's, a pair":        {"0.4.0", true, pairs, slicecodec.AttrNUMANode, since, "compare resource.kubernetes.io/pcieRoot of gpu, nic instead of"},
		"v0.4.0, the tutorial's, with CPUs":     {"0.4.0", true, three, slicecodec.AttrNUMANode, since, "compare resource.kubernetes.io/pcieRoot of gpu, nic and dra.net/numaNode of nic, cpu instead of resource.kubernetes.io/numaNode"},
		"v0.4.0, the tutorial's, by old name":   {"0.4.0", true, three, slicecodec.AttrLegacyNUMANode, legacy, "compare resource.kubernetes.io/pcieRoot of gpu, nic and dra.net/numaNode of nic, cpu instead of dra.net/numaNode"},
		"v0.5.0, by the old name":               {"0.5.0", false, three, slicecodec.AttrLegacyNUMANode, other, "compare resource.kubernetes.io/numaNode instead of dra.net/numaNode in constraint 0"},
		"v0.5.0, by the old name, tutorial's":   {"0.5.0", true, pairs, slicecodec.AttrLegacyNUMANode, other, "compare resource.kubernetes.io/pcieRoot of gpu, nic instead of dra.net/numaNode"},
		"v0.4.1, more than a root has, by NUMA": {"0.4.1", false, []resourceapi.DeviceRequest{gpus(4), nics(4)}, slicecodec.AttrNUMANode, since, "leave constraint 0"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := Claim("claim", []resourceapi.DeviceConstraint{Match(tc.attribute)}, tc.requests...)
			report, out := text(t, ofRelease(t, tc.release, tc.tutorial), explain.OfClaim(claim))
			if report.Verdict != explain.FitsNot || !strings.Contains(out, tc.says) || !strings.Contains(out, tc.fix) || !strings.Contains(out, tc.attribute) {
				t.Errorf("%s\nwant %q and %q", out, tc.says, tc.fix)
			}
			if strings.Contains(out, "did it mean") {
				t.Errorf("another name is no way out:\n%s", out)
			}
			if tc.release == "0.5.0" && strings.Contains(out, "from v0.5.0 on") {
				t.Errorf("the driver is new enough:\n%s", out)
			}
		})
	}
	claim := Claim("claim", []resourceapi.DeviceConstraint{Match(slicecodec.AttrNUMANode)}, three...)
	if report, out := text(t, ofRelease(t, "0.5.0", false), explain.OfClaim(claim)); report.Verdict != explain.Fits {
		t.Errorf("v0.5.0:\n%s", out)
	}
}
