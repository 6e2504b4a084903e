// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/explain"
)

// run runs the command, with a cluster if it is given one.
func run(t *testing.T, stdin string, client kubernetes.Interface, args ...string) (string, error) {
	t.Helper()
	o := &options{}
	if client != nil {
		o.client = func() (kubernetes.Interface, error) { return client, nil }
	}
	return clitest.Run(t, o.command(""), stdin, args...)
}

const examples = "../../../examples/"

// The mission's manifests, on machine files alone.
func TestExamplesOnMachines(t *testing.T) {
	for _, tc := range []struct {
		golden string
		fits   bool
		args   []string
	}{
		{"aligned.txt", true, []string{"-f", examples + "gke-device-alignment/manifests", "--machine", "a3-ultragpu-8g"}},
		{"numa.txt", true, []string{"-f", examples + "distributed-training-numa/manifests", "--machine", "azure-nd96isr-h100-v5", "--machine", "a3-ultragpu-8g"}},
		{"mpi.txt", true, []string{"-f", examples + "mpi-operator-gpudirect/manifests", "--machine", "a3-ultragpu-8g=2"}},
		{"tpu.txt", true, []string{"-f", examples + "tpu-v6e-multi-nic/manifests", "--machine", "gcp-ct6e-standard-4t"}},
	} {
		out, err := run(t, "", nil, tc.args...)
		if err != nil && !errors.Is(err, cmdutil.ErrReported) || (err == nil) != tc.fits {
			t.Errorf("%s: %v, want fits: %v", tc.golden, err, tc.fits)
		}
		clitest.Golden(t, tc.golden, out)
	}
}

// JSON and YAML say the same as the text.
func TestFormats(t *testing.T) {
	args := []string{"-f", examples + "gke-device-alignment/manifests/misaligned-claim.yaml", "--machine", "a3-ultragpu-8g", "-o"}
	var fromJSON, fromYAML []explain.Report
	out, err := run(t, "", nil, append(args, "json")...)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &fromJSON); err != nil {
		t.Fatal(err)
	}
	out, err = run(t, "", nil, append(args, "yaml")...)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(out), &fromYAML); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
		t.Error(diff)
	}
	if len(fromJSON) != 1 || fromJSON[0].Verdict != explain.Fits || len(fromJSON[0].Groups[0].Placed) != 3 {
		t.Errorf("%+v", fromJSON)
	}
}

// A wrong command line says what would be right.
func TestUsage(t *testing.T) {
	claim := examples + "gke-device-alignment/manifests/aligned-claim.yaml"
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"aligned"}, "want claim/NAME, pod/NAME or template/NAME"},
		{[]string{"node/x"}, "want claim/NAME"},
		{[]string{"claim/a/b"}, "want claim/NAME"},
		{[]string{"-o", "xml"}, "want text, json or yaml"},
		{[]string{"-l", "a=b=c"}, "--selector"},
		{[]string{"--machine", "a3-ultragpu-8g"}, "with -f"},
		{[]string{"-f", claim, "-A"}, "all of the files is explained already"},
		{[]string{"-f", claim, "--machine", "a3-ultragpu-8g=0"}, "want a count from 1 to 5000"},
		{[]string{"-f", claim, "--machine", "a3-ultragpu-8g", "--kubernetes-version", "2"}, "want 1.34 or newer"},
		{[]string{"-f", claim, "--machine", "a3-ultragpu-8g", "--feature-gates", "DRAThing=true"}, "want one of DRAAdminAccess"},
		{[]string{"-f", claim, "--machine", "a3-ultragpu-8g", "--feature-gates", "DRAAdminAccess"}, "want NAME=true or NAME=false"},
	} {
		_, err := run(t, "", nil, tc.args...)
		if !errors.As(err, new(cmdutil.UsageError)) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%q: %v: want %q", tc.args, err, tc.says)
		}
	}
}

// What is not there is said, with what may have been meant.
func TestAbsent(t *testing.T) {
	claim := examples + "gke-device-alignment/manifests/aligned-claim.yaml"
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"claim/aligned-resource-clam", "-f", claim, "--machine", "a3-ultragpu-8g"}, "did you mean aligned-resource-claim?"},
		{[]string{"-f", claim, "--machine", "a3-ultragpu-8", "-o", "text"}, "a3-ultragpu-8"},
		{[]string{"-f", claim, "--machine", "a3-ultragpu-8g", "--node", "a3-ultragpu-8h"}, "did you mean a3-ultragpu-8g?"},
		{[]string{"-f", examples + "gke-device-alignment/manifests/kustomization.yaml", "--machine", "a3-ultragpu-8g"}, "no ResourceClaim"},
		{[]string{"-f", "nowhere.yaml", "--machine", "a3-ultragpu-8g"}, "nowhere.yaml"},
	} {
		_, err := run(t, "", nil, tc.args...)
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%q: %v: want %q", tc.args, err, tc.says)
		}
	}
}

// hostile are files that nobody means well with, and what is said of each.
var hostile = map[string]struct{ text, says string }{
	"a count in words": {
		"apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: x}\nspec: {devices: {requests: [{name: a, exactly: {count: two}}]}}",
		"exactly.count of type int64",
	},
	"a field that there is not": {pairOf("constrains: [{matchAttribute: resource.kubernetes.io/pcieRoot}]"), `unknown field "spec.devices.constrains": passed over here`},
	"a list of lists":           {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, items: []}", "is not a list"},
	"a list":                    {"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(pairOf("config: []"), "\n", "\n  "), "ResourceClaim default/pair fits"},
	"other kinds":               {"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n---\n" + pairOf("config: []"), "ResourceClaim default/pair fits"},
	"lines of Windows":          {strings.ReplaceAll(pairOf("config: []"), "\n", "\r\n"), "ResourceClaim default/pair fits"},
	"half of a file":            {pairOf("config: []")[:150], "error parsing"},
	"half of a JSON file":       {`{"apiVersion":"resource.k8s.io/v1","kind":"Resource`, "error parsing"},
	"JSON": {
		`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"j"},"spec":{"devices":{"requests":[{"name":"n","exactly":{"deviceClassName":"mrdma.google.com"}}]}}}`,
		"ResourceClaim default/j fits",
	},
	"words":                {"hello", "unable to decode"},
	"nothing":              {"", "no ResourceClaim"},
	"bytes that are none":  {"kind: \xff\xfe\x00", "error parsing"},
	"names that are none":  {strings.ReplaceAll(pairOf("config: []"), "pair", "\"p\\u001b[31m\\u202e\""), "ResourceClaim default/p\ufffd[31m\ufffd fits"},
	"a kind of the future": {"apiVersion: resource.k8s.io/v3\nkind: ResourceClaim\nmetadata: {name: x}", "no ResourceClaim"},
}

// pairOf is a claim for a GPU and a NIC, with a further field.
func pairOf(field string) string {
	return `apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: pair
spec:
  devices:
    requests:
    - name: gpu
      exactly: {deviceClassName: gpu.nvidia.com}
    - name: nic
      exactly: {deviceClassName: mrdma.google.com}
    ` + field + "\n"
}

// Whatever a file has, what is said is one line, or a report.
func TestHostileFiles(t *testing.T) {
	for name, file := range hostile {
		out, err := run(t, file.text, nil, "-f", "-", "--machine", "a3-ultragpu-8g")
		if err != nil {
			out += cmdutil.OneLine(err)
		}
		if !strings.Contains(out, file.says) || strings.ContainsRune(out, '\x1b') {
			t.Errorf("%s: want %q:\n%s", name, file.says, out)
		}
	}
}
