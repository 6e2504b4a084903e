// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// run runs a command line and returns what it prints.
func run(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	return clitest.Run(t, rootCommand(), stdin, append([]string{"claim"}, args...)...)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{Use: "plumbline"}
	root.AddGroup(&cobra.Group{ID: "g", Title: "g"})
	root.AddCommand(NewCommand("g"))
	return root
}

func requireGolden(t *testing.T, name, got string) {
	t.Helper()
	clitest.Golden(t, name, got)
}

func TestLintFindsEveryMistake(t *testing.T) {
	out, err := run(t, "", "lint", "-f", "testdata/broken.yaml")
	if !errors.Is(err, cmdutil.ErrReported) {
		t.Errorf("error %v, want the exit code alone", err)
	}
	requireGolden(t, "broken.txt", out)
}

// The mission's manifests are to work unchanged.
func TestLintTakesTheMission(t *testing.T) {
	folders, err := filepath.Glob("../../../examples/*/manifests")
	if err != nil || len(folders) < 5 {
		t.Fatal(folders, err)
	}
	args := []string{"lint"}
	for _, f := range folders {
		args = append(args, "-f", f)
	}
	out, err := run(t, "", args...)
	if err != nil {
		t.Errorf("the mission's manifests have errors: %v", err)
	}
	requireGolden(t, "missions.txt", out)
}

func TestLintOutputForPrograms(t *testing.T) {
	text, err := os.ReadFile("testdata/broken.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(t, string(text), "lint", "-f", "-", "-o", "json")
	if !errors.Is(err, cmdutil.ErrReported) {
		t.Error(err)
	}
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Errors+r.Warnings+r.Notes != len(r.Findings) || r.Errors == 0 || r.Findings[0].Source != "-" || r.Findings[0].Name != "fast" {
		t.Errorf("%+v", r)
	}
	out, err = run(t, "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n", "lint", "-f", "-", "-o", "yaml")
	if want := "checked: 0\nerrors: 0\nfindings: []\nwarnings: 0\n"; err != nil || out != want {
		t.Errorf("%v %s, want %s", err, out, want)
	}
}

// One claim in the three versions of the API: the fields have other paths, and
// the mistakes are the same.
func TestLintReadsAllVersions(t *testing.T) {
	const manifest = `
apiVersion: resource.k8s.io/VERSION
kind: ResourceClaim
metadata: {name: a}
spec:
  devices:
    requests:
    - {name: nic, REQUEST}
    config:
    - opaque: {driver: dra.net, parameters: {interface: {mtu: 1}}}
`
	const selectors = `deviceClassName: dra.net, selectors: [{cel: {expression: "1"}}]`
	for version, request := range map[string]string{"v1": "exactly: {" + selectors + "}", "v1beta2": "exactly: {" + selectors + "}", "v1beta1": selectors} {
		body := strings.NewReplacer("VERSION", version, "REQUEST", request).Replace(manifest)
		out, err := run(t, body, "lint", "-f", "-")
		path := "requests[0].exactly.selectors[0]"
		if version == "v1beta1" {
			path = "requests[0].selectors[0]"
		}
		for _, want := range []string{"spec.devices." + path + ".cel.expression: Invalid value", "spec.devices.config[0].opaque.parameters.interface.mtu: Invalid value: 1: want 68-65535"} {
			if err == nil || !strings.Contains(out, want) {
				t.Errorf("%s: %v\n%swant %s", version, err, out, want)
			}
		}
	}
}

// A version that is not read is an error, not nothing to check.
func TestLintOfUnknownVersions(t *testing.T) {
	const manifest = `
apiVersion: resource.k8s.io/v1alpha2
kind: KIND
metadata: {name: a}
spec: {resourceClassName: dra.net}
`
	for _, kind := range []string{"ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "DeviceTaintRule"} {
		out, err := run(t, strings.Replace(manifest, "KIND", kind, 1), "lint", "-f", "-")
		for _, want := range []string{kind + ` a: error: apiVersion: Unsupported value: "resource.k8s.io/v1alpha2": supported values: `, `"resource.k8s.io/v1"`, "1 object checked: 1 error, 0 warnings\n"} {
			if !errors.Is(err, cmdutil.ErrReported) || !strings.Contains(out, want) {
				t.Errorf("%s: %v\n%swant %s", kind, err, out, want)
			}
		}
	}
	out, err := run(t, strings.Replace(manifest, "KIND", "PodSchedulingContext", 1), "lint", "-f", "-")
	if err != nil || !strings.Contains(out, "0 objects checked") {
		t.Errorf("a kind that is no claim: %v\n%s", err, out)
	}
}

// One object that is nonsense does not keep the others from being checked.
func TestLintOfWhatIsNoClaim(t *testing.T) {
	const nonsense = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a}
spec: {devices: {requests: 5}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: b}
spec:
  devices:
    requests: [{name: nic, exactly: {deviceClassName: dra.net}}]
    config: [{opaque: {driver: dra.net}}, {opaque: {driver: dra.net, parameters: x}}, {opaque: {parameters: {}}}]
`
	out, err := run(t, nonsense, "lint", "-f", "-")
	if !errors.Is(err, cmdutil.ErrReported) {
		t.Error(err)
	}
	for _, want := range []string{
		"ResourceClaim a: error: spec.devices.requests: Invalid value: is a JSON number\n",
		"ResourceClaim b: error: spec.devices.config[0].opaque.parameters: Invalid value: parameters are empty: want an object, at least {}\n",
		`ResourceClaim b: error: spec.devices.config[1].opaque.parameters: Invalid value: "x": is a string, want an object`,
		"ResourceClaim b: error: spec.devices.config[2].opaque.driver: Required value: want the driver that the parameters are for, such as dra.net\n",
		"2 objects checked: 4 errors, 0 warnings\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%swant %s", out, want)
		}
	}
}

func TestRender(t *testing.T) {
	out, err := run(t, "", "render", "-f", "testdata/layers.yaml")
	if err != nil {
		t.Error(err)
	}
	requireGolden(t, "layers.txt", out)
	out, err = run(t, "", "render", "-f", "testdata/layers.yaml", "-o", "yaml")
	if err != nil {
		t.Error(err)
	}
	requireGolden(t, "layers.rendered.yaml", out)
}

// What dra.cpu reads is checked and shown as what dra.net reads is.
func TestCPUParameters(t *testing.T) {
	out, err := run(t, "", "lint", "-f", "testdata/cpus.yaml")
	if want := "2 objects checked: 0 errors, 0 warnings\n"; err != nil || out != want {
		t.Errorf("%v %s, want %s", err, out, want)
	}
	out, err = run(t, "", "render", "-f", "testdata/cpus.yaml")
	if err != nil {
		t.Error(err)
	}
	requireGolden(t, "cpus.txt", out)
	text, err := os.ReadFile("testdata/cpus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const at = "error: spec.devices.config[0].opaque.parameters"
	for change, want := range map[[2]string]string{
		{"cpuset: \"4-7\"", "cpus: \"4-7\""}:                  at + ".cpuConfig.cpus: Forbidden: no such field: want one of cpuset",
		{"4-7", "7-4"}:                                        at + `.cpuConfig.cpuset: Invalid value: "7-4"`,
		{"cpuConfig:", "cpuset: \"1\"\n          cpuConfig:"}: at + ".cpuConfig.cpuset: Forbidden: is the older place of cpuset",
		{"kind: CPUConfig", "kind: NetworkConfig"}:            `error: spec.devices.config[1].opaque.parameters.kind: Unsupported value: "NetworkConfig"`,
	} {
		out, err := run(t, strings.Replace(string(text), change[0], change[1], 1), "lint", "-f", "-")
		if !errors.Is(err, cmdutil.ErrReported) || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%swant %s", change[1], err, out, want)
		}
	}
}

func TestRenderOfWhatIsRefused(t *testing.T) {
	out, err := run(t, "", "render", "-f", "../../../examples/tpu-v6e-multi-nic/manifests")
	if err != nil {
		t.Error(err, out)
	}
	const refused = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a}
spec:
  devices:
    requests: [{name: nic, exactly: {deviceClassName: dra.net}}]
    config: [{opaque: {driver: dra.net, parameters: {profile: fast, interface: {type: vlan}}}}]
`
	out, err = run(t, refused, "render", "-f", "-")
	if !errors.Is(err, cmdutil.ErrReported) || !strings.Contains(out, "refused: interface.vlanID: Required value") ||
		!strings.Contains(out, "note: profile fast: what it holds is known on the node only") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestWrongCommandLines(t *testing.T) {
	for want, args := range map[string][]string{
		"nothing to read":                      {"lint"},
		`"pod/a": want claim/NAME`:             {"lint", "pod/a"},
		`"claim/": want claim/NAME`:            {"render", "claim/"},
		"want one of them":                     {"lint", "-f", "testdata/layers.yaml", "claim/a"},
		`output format "wide"`:                 {"render", "-f", "testdata/layers.yaml", "-o", "wide"},
		`the path "testdata/nothing" does not`: {"lint", "-f", "testdata/nothing"},
	} {
		_, err := run(t, "", args...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
}
