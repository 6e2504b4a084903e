// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// Parameters of NVIDIA's driver are checked by its rules, and against the requests that
// they are for.
func TestLintOfNVIDIAsParameters(t *testing.T) {
	out, err := run(t, "", "lint", "-f", "testdata/nvidia.yaml")
	if !errors.Is(err, cmdutil.ErrReported) {
		t.Error(err)
	}
	requireGolden(t, "nvidia.txt", out)
}

// nvidiaClaim is a claim of one request and of configurations, each of which names the
// request or is for all.
func nvidiaClaim(request string, configs ...string) string {
	var all []string
	for _, c := range configs {
		name, parameters, _ := strings.Cut(c, " ")
		all = append(all, fmt.Sprintf("{%sopaque: {driver: gpu.nvidia.com, parameters: {apiVersion: resource.nvidia.com/v1beta1, %s}}}", map[string]string{"named": "requests: [r], "}[name], parameters))
	}
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a}
spec: {devices: {requests: [{name: r, exactly: {%s}}], config: [%s]}}
`, request, strings.Join(all, ", "))
}

// The device's type is that of NVIDIA's class, or what selectors want; where none says it
// nothing is refused. Of several configurations the last one counts.
func TestLintOfNVIDIAsTypes(t *testing.T) {
	const (
		refused = ": error: spec.devices.config[0].opaque.parameters.kind: Invalid value: "
		passed  = ": warning: spec.devices.config[0].opaque.parameters.kind: "
		gpus    = "named kind: GpuConfig"
		parts   = "named kind: MigDeviceConfig"
	)
	const every = `---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: every}
spec: {selectors: [{cel: {expression: device.driver == "gpu.nvidia.com"}}]}
`
	selecting := func(class, kind string) string {
		return fmt.Sprintf(`deviceClassName: %s, selectors: [{cel: {expression: 'device.attributes["gpu.nvidia.com"].type == "%s"'}}]`, class, kind)
	}
	for name, tc := range map[string]struct {
		manifest, want string
	}{
		"GPUs":                        {nvidiaClaim("deviceClassName: gpu.nvidia.com", gpus), ""},
		"MIG devices":                 {nvidiaClaim("deviceClassName: mig.nvidia.com", parts), ""},
		"MIG devices as GPUs":         {nvidiaClaim("deviceClassName: mig.nvidia.com", gpus), refused + `"GpuConfig": is for devices of type gpu, and request r takes those of type mig, for which the driver refuses it: want MigDeviceConfig`},
		"GPUs as MIG devices":         {nvidiaClaim("deviceClassName: gpu.nvidia.com", parts), refused + `"MigDeviceConfig"`},
		"passed-through GPUs as GPUs": {nvidiaClaim("deviceClassName: vfio.gpu.nvidia.com", gpus), refused + `"GpuConfig"`},
		"an unknown class":            {nvidiaClaim("deviceClassName: mine", gpus), ""},
		"a selector":                  {nvidiaClaim(selecting("mine", "mig"), gpus), refused},
		"a selector that agrees":      {nvidiaClaim(selecting("mine", "gpu"), gpus), ""},
		"a later one is right":        {nvidiaClaim("deviceClassName: mig.nvidia.com", gpus, parts), ""},
		"a later one for all":         {nvidiaClaim("deviceClassName: mig.nvidia.com", gpus, "all kind: MigDeviceConfig"), ""},
		"a later one of another type": {nvidiaClaim("deviceClassName: mig.nvidia.com", gpus, "all kind: GpuConfig"), refused},
		"one for all":                 {nvidiaClaim("deviceClassName: mig.nvidia.com", "all kind: GpuConfig"), passed + "GpuConfig: is for devices of type gpu, and the driver passes over it: r takes type mig"},
		"one for all NICs":            {nvidiaClaim("deviceClassName: dra.net", "all kind: GpuConfig"), passed + "GpuConfig: is for devices of type gpu, and the driver passes over it: the claim has no request for them"},
		"one for all of the driver":   {nvidiaClaim("deviceClassName: every", "all kind: GpuConfig") + every, ""},
		"one for all of any class":    {nvidiaClaim("deviceClassName: mine", "all kind: GpuConfig"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, tc.manifest, "lint", "-f", "-")
			if (err != nil) != strings.Contains(tc.want, ": error: ") || !strings.Contains(out, tc.want) {
				t.Errorf("%v\n%swant %s", err, out, tc.want)
			}
			if found := strings.Contains(out, "opaque.parameters.kind: "); found != (tc.want != "") {
				t.Errorf("found something: %t\n%s", found, out)
			}
		})
	}
}
