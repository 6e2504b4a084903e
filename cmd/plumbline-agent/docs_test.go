// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/docs/docstest"
)

// TestFlagsOfOthers: the pages for those who come from another driver answer for
// each of its flags, and name flags and values that there are.
func TestFlagsOfOthers(t *testing.T) {
	values := chartValues(t)
	agent := newCommand(surroundings{})
	for page, theirs := range map[string][]string{
		"coming-from-dranet.md": {
			"--bind-address", "--cloud-provider-hint", "--db-path", "--feature-gates", "--filter", "--hostname-override",
			"--inventory-max-poll-interval", "--inventory-min-poll-interval", "--inventory-poll-burst", "--kubeconfig",
			"--kubelet-root-dir", "--move-ib-interfaces", "--profile-provider", "--v", "--webhook-url",
		},
		"coming-from-dra-driver-cpu.md": {
			"--bind-address", "--config", "--cpu-device-mode", "--expose-pcie-roots", "--group-by", "--hostname-override",
			"--kubeconfig", "--kubelet-root-dir", "--reserved-cpus", "--sysfs-overlay", "--v",
		},
	} {
		var named []string
		for _, row := range flagRows(t, page) {
			if strings.HasPrefix(row[0], "--") {
				named = append(named, row[0])
			}
			if name, isFlag := strings.CutPrefix(row[2], "--"); isFlag && agent.Flags().Lookup(name) == nil {
				t.Errorf("%s: the agent has no flag --%s", page, name)
			}
			if row[3] != "–" && !has(values, row[3]) {
				t.Errorf("%s: the chart has no value %s", page, row[3])
			}
		}
		slices.Sort(named)
		if !slices.Equal(named, theirs) {
			t.Errorf("%s answers for %q, want %q", page, named, theirs)
		}
	}
}

// flagRows are the cells of the table of flags, without quotes.
func flagRows(t *testing.T, page string) [][]string {
	t.Helper()
	_, rest, found := strings.Cut(docstest.Page(t, page), "<!-- flags: begin -->\n")
	table, _, closed := strings.Cut(rest, "<!-- flags: end -->")
	if !found || !closed {
		t.Fatalf("%s has no table of flags", page)
	}
	code := regexp.MustCompile("^`([^`]+)`$")
	var rows [][]string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 5 {
			t.Fatalf("%s: %d cells in %q", page, len(cells), line)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
			if m := code.FindStringSubmatch(cells[i]); m != nil {
				cells[i] = m[1]
			}
		}
		rows = append(rows, cells)
	}
	return rows[2:] // below the head
}

func chartValues(t *testing.T) map[string]any {
	t.Helper()
	chart, err := deploy.Chart()
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(chart, "values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// has says whether values have a path.
func has(values map[string]any, path string) bool {
	name, below, deeper := strings.Cut(path, ".")
	value, ok := values[name]
	if !deeper {
		return ok
	}
	inner, isMap := value.(map[string]any)
	return isMap && has(inner, below)
}
