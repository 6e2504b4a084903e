// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nvidia_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/internal/vendorconfig/nvidia"
)

// of is a text of parameters with the header that they want.
func of(kind, rest string) string {
	return fmt.Sprintf(`{"apiVersion": "resource.nvidia.com/v1beta1", "kind": %q%s}`, kind, rest)
}

func gpu(sharing string) string { return of("GpuConfig", `, "sharing": `+sharing) }
func mig(sharing string) string { return of("MigDeviceConfig", `, "sharing": `+sharing) }
func vfio(iommu string) string  { return of("VfioDeviceConfig", `, "iommu": `+iommu) }
func mps(config string) string  { return gpu(`{"strategy": "MPS", "mpsConfig": ` + config + `}`) }
func sliced(config string) string {
	return gpu(`{"strategy": "TimeSlicing", "timeSlicingConfig": ` + config + `}`)
}

// wrong is what is said of parameters, in the order of the fields.
func wrong(text string) []string {
	c, err := nvidia.Decode([]byte(text))
	if err != nil {
		return strings.Split(strings.Trim(err.Error(), "[]"), "\n")
	}
	return lines(c.Mistakes())
}

func lines(errs field.ErrorList) []string {
	var all []string
	for _, e := range errs {
		all = append(all, e.Error())
	}
	return all
}

// What the driver takes is accepted, and of everything else it is said where it is and
// what would be right.
func TestDecode(t *testing.T) {
	const (
		strategies = `supported values: "TimeSlicing", "MPS"`
		intervals  = `supported values: "Default", "Short", "Medium", "Long"`
		crashes    = "sharing.timeSlicingConfig.interval: Required value: the driver's check crashes on a timeSlicingConfig without it: want one of Default, Short, Medium, Long, or no timeSlicingConfig"
		noKind     = "kind: Required value: the driver takes no parameters without it: want one of GpuConfig, MigDeviceConfig, VfioDeviceConfig"
		noVersion  = "apiVersion: Required value: the driver takes no parameters without it: want resource.nvidia.com/v1beta1"
	)
	for text, want := range map[string]string{
		of("GpuConfig", ""):                "",
		of("MigDeviceConfig", ""):          "",
		of("VfioDeviceConfig", ""):         "",
		gpu("null"):                        "",
		gpu(`{"strategy": "TimeSlicing"}`): "",
		gpu(`{"strategy": "TimeSlicing", "timeSlicingConfig": null}`):    "",
		gpu(`{"strategy": "MPS"}`):                                       "",
		sliced(`{"interval": "Default"}`):                                "",
		sliced(`{"interval": "Long"}`):                                   "",
		mps(`{}`):                                                        "",
		mps(`{"defaultActiveThreadPercentage": 0}`):                      "",
		mps(`{"defaultActiveThreadPercentage": 100, "multiUser": true}`): "",
		mps(`{"defaultPinnedDeviceMemoryLimit": "10Gi"}`):                "",
		mps(`{"defaultPinnedDeviceMemoryLimit": 1048576}`):               "",
		mps(`{"defaultPerDevicePinnedMemoryLimit": {"0": "1Gi", "1": "2Gi", "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c": "1Mi", "MIG-1": "1Gi"}}`): "",
		mig(`{"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}}`):                                                            "",
		mig(`{"strategy": "TimeSlicing"}`):                  "",
		mig(`{"strategy": "TimeSlicing", "mpsConfig": {}}`): "",
		vfio(`{}`):                              "",
		vfio(`{"backendPolicy": "LegacyOnly"}`): "",
		vfio(`{"backendPolicy": "PreferIommuFD", "enableAPIDevice": true}`): "",

		``:   "parameters are empty: want an object, at least {}",
		`{`:  "parameters are no JSON: unexpected end of JSON input",
		`[]`: "parameters: Invalid value: is a list, want an object",
		`{}`: noKind + ", " + noVersion,
		`{"apiVersion": "resource.nvidia.com/v1beta1"}`:                      noKind,
		`{"apiVersion": "resource.nvidia.com/v1beta1", "kind": 1}`:           noKind,
		`{"apiVersion": "resource.nvidia.com/v1beta1", "kind": ""}`:          noKind,
		`{"apiVersion": "resource.nvidia.com/v1beta1", "Kind": "GpuConfig"}`: noKind,
		`{"kind": "GpuConfig"}`: noVersion,
		`{"apiVersion": "gpu.nvidia.com/v1alpha1", "kind": "GpuConfig"}`:        `apiVersion: Unsupported value: "gpu.nvidia.com/v1alpha1": supported values: "resource.nvidia.com/v1beta1"`,
		`{"apiVersion": "resource.nvidia.com/v1", "kind": "GpuConf"}`:           `kind: Unsupported value: "GpuConf": supported values: "GpuConfig", "MigDeviceConfig", "VfioDeviceConfig", apiVersion: Unsupported value: "resource.nvidia.com/v1": supported values: "resource.nvidia.com/v1beta1"`,
		`{"apiVersion": "resource.nvidia.com/v1", "kind": "GpuConfig", "a": 1}`: `a: Forbidden: no such field: want one of apiVersion, kind, sharing, apiVersion: Unsupported value: "resource.nvidia.com/v1": supported values: "resource.nvidia.com/v1beta1"`,
		of("ComputeDomainChannelConfig", ""):                                    `kind: Unsupported value: "ComputeDomainChannelConfig": supported values: "GpuConfig", "MigDeviceConfig", "VfioDeviceConfig"`,
		of("gpuConfig", ""):                                                     `kind: Unsupported value: "gpuConfig": supported values: "GpuConfig", "MigDeviceConfig", "VfioDeviceConfig"`,
		of("GpuConfig", `, "kind": "GpuConfig"`):                                "kind: Forbidden: is there twice",
		of("GpuConfig", `, "sharin": {}`):                                       "sharin: Forbidden: no such field: did you mean sharing?",
		of("VfioDeviceConfig", `, "sharing": {}`):                               "sharing: Forbidden: no such field: want one of apiVersion, iommu, kind",

		gpu(`{}`):                          "sharing.strategy: Required value: want TimeSlicing or MPS, or no sharing",
		gpu(`{"strategy": "timeSlicing"}`): `sharing.strategy: Unsupported value: "timeSlicing": ` + strategies,
		gpu(`{"strategy": 1}`):             "sharing.strategy: Invalid value: 1: is a number, want a string",
		gpu(`{"strategy": "Exclusive", "timeSlicingConfig": {"interval": "Forever"}, "mpsConfig": {"defaultActiveThreadPercentage": -1}}`): `sharing.strategy: Unsupported value: "Exclusive": ` + strategies +
			`, sharing.timeSlicingConfig.interval: Unsupported value: "Forever": ` + intervals + ", sharing.mpsConfig.defaultActiveThreadPercentage: Invalid value: -1: want 0-100",
		sliced(`{}`):                                                                    crashes,
		sliced(`{"interval": null}`):                                                    crashes,
		sliced(`{"interval": ""}`):                                                      `sharing.timeSlicingConfig.interval: Unsupported value: "": ` + intervals,
		sliced(`{"interval": "long"}`):                                                  `sharing.timeSlicingConfig.interval: Unsupported value: "long": ` + intervals,
		sliced(`{"intervall": "Long"}`):                                                 "sharing.timeSlicingConfig.intervall: Forbidden: no such field: did you mean interval?",
		gpu(`{"strategy": "TimeSlicing", "mpsConfig": {}}`):                             "sharing.mpsConfig: Forbidden: not with strategy TimeSlicing: leave it out, or want timeSlicingConfig",
		gpu(`{"strategy": "MPS", "timeSlicingConfig": {}}`):                             "sharing.timeSlicingConfig: Forbidden: not with strategy MPS: leave it out, or want mpsConfig",
		mps(`{"defaultActiveThreadPercentage": 101}`):                                   "sharing.mpsConfig.defaultActiveThreadPercentage: Invalid value: 101: want 0-100",
		mps(`{"defaultActiveThreadPercentage": "50"}`):                                  `sharing.mpsConfig.defaultActiveThreadPercentage: Invalid value: "50": is a string, want a whole number of at most 64 bits`,
		mps(`{"defaultPinnedDeviceMemoryLimit": "10 Gi"}`):                              `sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: Invalid value: "10 Gi": want a quantity, such as 10Gi`,
		mps(`{"defaultPinnedDeviceMemoryLimit": "1023Ki"}`):                             `sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: Invalid value: "1023Ki": want 1Mi or more, the driver counts whole MiB`,
		mps(`{"defaultPinnedDeviceMemoryLimit": "-1Gi"}`):                               `sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: Invalid value: "-1Gi": want 1Mi or more, the driver counts whole MiB`,
		mps(`{"defaultPerDevicePinnedMemoryLimit": {"0": "x"}}`):                        `sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[0]: Invalid value: "x": want a quantity, such as 10Gi`,
		mps(`{"defaultPerDevicePinnedMemoryLimit": {"0": "1"}}`):                        `sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[0]: Invalid value: "1": want 1Mi or more, the driver counts whole MiB`,
		mps(`{"defaultPerDevicePinnedMemoryLimit": {"gpu-0": "1Gi"}}`):                  `sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[gpu-0]: Invalid value: "gpu-0": names no device: want its place in the claim, such as 0, or its UUID, such as GPU-1d2e...`,
		mps(`{"defaultPerDevicePinnedMemoryLimit": {"-1": "1Gi"}}`):                     `sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[-1]: Invalid value: "-1": names no device: want its place in the claim, such as 0, or its UUID, such as GPU-1d2e...`,
		mig(`{"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}`):   "sharing.timeSlicingConfig: Forbidden: no such field of MigDeviceConfig, as time slices are those of whole GPUs: leave it out, or want GpuConfig and a whole GPU",
		mig(`{"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 200}}`): "sharing.mpsConfig.defaultActiveThreadPercentage: Invalid value: 200: want 0-100",
		mig(`{"strategy": "Exclusive"}`):                                                `sharing.strategy: Unsupported value: "Exclusive": ` + strategies,
		vfio(`{"backendPolicy": "Legacy"}`):                                             `iommu.backendPolicy: Unsupported value: "Legacy": supported values: "LegacyOnly", "PreferIommuFD"`,
		vfio(`{"enableAPIDevice": "true"}`):                                             `iommu.enableAPIDevice: Invalid value: "true": is a string, want true or false`,
	} {
		if got := strings.Join(wrong(text), ", "); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

// What depends on the driver's feature gates is told by their names, and so is what the
// driver takes and does nothing with.
func TestWarnings(t *testing.T) {
	gate := func(name string) string { return "feature gate " + name + " (alpha, off by default)" }
	for text, want := range map[string][]string{
		of("GpuConfig", ""):             nil,
		of("MigDeviceConfig", ""):       nil,
		gpu(`{"strategy": "x"}`):        nil,
		sliced(`{"interval": "Short"}`): {"sharing.strategy: Forbidden: wants the driver's " + gate("TimeSlicingSettings") + ": without it the driver refuses the claim, and its pods do not start"},
		mps(`{}`):                       {"sharing.strategy: Forbidden: wants the driver's " + gate("MPSSupport") + ", and neither DynamicMIG nor ConsumableShares: without it the driver refuses the claim, and its pods do not start"},
		mig(`{"strategy": "MPS"}`):      {"sharing.strategy: Forbidden: wants the driver's " + gate("MPSSupport") + ", and neither DynamicMIG nor ConsumableShares: without it the driver refuses the claim, and its pods do not start"},
		mig(`{"strategy": "TimeSlicing", "mpsConfig": {}}`): {
			"sharing.strategy: Forbidden: wants the driver's " + gate("TimeSlicingSettings") + ": without it the driver refuses the claim, and its pods do not start",
			"sharing.strategy: Forbidden: has no effect on MIG devices, as time slices are those of whole GPUs: want MPS, or no sharing",
			"sharing.mpsConfig: Forbidden: is not read with strategy TimeSlicing: leave it out, or want strategy MPS",
		},
		of("VfioDeviceConfig", ""): {"kind: Forbidden: is for devices that the driver has with its feature gate PassthroughSupport only (alpha, off by default)"},
	} {
		c, err := nvidia.Decode([]byte(text))
		if err != nil {
			t.Fatal(text, err)
		}
		if got := lines(c.Warnings()); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s:\n got %q\nwant %q", text, got, want)
		}
	}
}

// Each kind is for the devices of one type.
func TestKindFor(t *testing.T) {
	for deviceType, kind := range map[string]string{"gpu": "GpuConfig", "mig": "MigDeviceConfig", "vfio": "VfioDeviceConfig", "other": ""} {
		if got := nvidia.KindFor(deviceType); got != kind {
			t.Errorf("%s: %s, want %s", deviceType, got, kind)
		}
		if kind == "" {
			continue
		}
		c, err := nvidia.Decode([]byte(of(kind, "")))
		if err != nil || c.DeviceType() != deviceType || c.Header().Kind != kind {
			t.Errorf("%s: %v, %v", kind, c, err)
		}
	}
}

// Whatever the text, it is refused or accepted, and what is accepted is the same when it
// is written and read again, with the same to say of it.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		"", "{}", of("GpuConfig", ""), sliced(`{}`), sliced(`{"interval": "Long"}`), vfio(`{"enableAPIDevice": null}`),
		mps(`{"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": 1.5e9, "defaultPerDevicePinnedMemoryLimit": {"0": "0.5Gi", "a\"b": "1m"}, "multiUser": true}`),
		mig(`{"strategy": "MPS", "timeSlicingConfig": 1}`), of("GpuConfig", `, "kind": "MigDeviceConfig"`),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := nvidia.Decode([]byte(text))
		if err != nil {
			return
		}
		written, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := nvidia.Decode(written)
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if !apiequality.Semantic.DeepEqual(c, again) {
			t.Errorf("%s is %s when read again", text, written)
		}
		if a, b := fmt.Sprint(c.Mistakes(), c.Warnings()), fmt.Sprint(again.Mistakes(), again.Warnings()); a != b {
			t.Errorf("%s: %s, and written again %s", text, a, b)
		}
	})
}
