// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"strings"
	"testing"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/deploy/render"
	"plumbline.dev/plumbline/internal/golden"
)

const header = `# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# Generated from charts/plumbline by "make generate"; edit the chart instead.
`

// classNames are all the classes that the chart's schema allows.
var classNames = []any{
	"dra.net", "dranet", "dranet.net", "mrdma.google.com", "netdev.google.com", "shared.dra.net",
	"dra.cpu", "gpu.nvidia.com", "mig.nvidia.com",
}

// TestGolden keeps the manifests for people without Helm equal to the chart.
func TestGolden(t *testing.T) {
	tests := []struct {
		file   string
		about  string
		values map[string]any
		keep   func(document string) bool
	}{
		{
			file: "install.yaml",
			about: "# The agent with default values, in a namespace of its own:\n" +
				"#   kubectl apply --server-side -f install.yaml\n",
			values: map[string]any{
				"namespace": map[string]any{"create": true}, "deviceClasses": map[string]any{"create": []any{}},
			},
			keep: func(string) bool { return true },
		},
		{
			file: "observe.yaml",
			about: "# Agents that serve nothing and look at what other drivers gave to pods:\n" +
				"#   kubectl apply --server-side -f observe.yaml\n",
			values: map[string]any{"observe": true, "namespace": map[string]any{"create": true}, "priorityClassQuota": map[string]any{"create": false}},
			keep:   func(string) bool { return true },
		},
		{
			file: "deviceclasses.yaml",
			about: "# The device classes. Create them, so that those already there stay as they are:\n" +
				"#   kubectl create -f deviceclasses.yaml\n",
			values: map[string]any{"deviceClasses": map[string]any{"create": classNames}},
			keep:   func(document string) bool { return strings.Contains(document, "\nkind: DeviceClass\n") },
		},
	}
	for _, tc := range tests {
		t.Run(tc.file, func(t *testing.T) {
			rendered, err := render.Chart(deploy.Namespace, tc.values)
			if err != nil {
				t.Fatal(err)
			}
			got := header + "#\n" + tc.about
			for _, document := range bytes.SplitAfter(rendered, []byte("\n---\n")) {
				text := strings.TrimPrefix(strings.TrimSuffix(string(document), "---\n"), "---\n")
				if tc.keep(text) {
					got += "---\n" + text
				}
			}
			golden.Assert(t, "../"+tc.file, got)
		})
	}
}

func TestGoldensDecodeStrictly(t *testing.T) {
	if n := len(decode(t, deploy.Install())); n != 31 {
		t.Errorf("install.yaml holds %d objects, want 31", n)
	}
	if n := len(decode(t, deploy.Observe())); n != 11 {
		t.Errorf("observe.yaml holds %d objects, want 11", n)
	}
	if n := len(decode(t, deploy.DeviceClasses())); n != len(classNames) {
		t.Errorf("deviceclasses.yaml holds %d objects, want one for each of the %d classes", n, len(classNames))
	}
}
