// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/cli/claim/policy"
)

const deploy = "../../../../deploy/"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(deploy + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The cases that the policy is tried on have the same answers here.
func TestAgreesWithThePolicy(t *testing.T) {
	var list struct {
		Cases []struct {
			Name, Namespace, Driver, Refused string
			Parameters                       []string
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "testdata/claimpolicy.yaml")), &list); err != nil {
		t.Fatal(err)
	}
	tried, found := 0, map[string]bool{}
	for _, c := range list.Cases {
		if c.Namespace != "" || c.Driver != "" {
			continue
		}
		var notes []string
		readable := true
		for _, text := range c.Parameters {
			config, err := v1alpha1.DecodeNetworkConfig([]byte(text))
			if err != nil {
				readable = false
				break
			}
			for _, u := range policy.Uses(config) {
				found[u.Setting.Name] = true
				notes = append(notes, fmt.Sprintf("%s: %s; %s", u.Field, u.Setting.What, u.Note("plain")))
			}
		}
		if !readable {
			continue // an error of its own
		}
		tried++
		if (len(notes) == 0) != (c.Refused == "") {
			t.Errorf("%s: %q, the policy says %q", c.Name, notes, c.Refused)
		}
		if m := regexp.MustCompile(`allow\.plumbline\.dev/\w+=true`).FindString(c.Refused); m != "" && !strings.Contains(strings.Join(notes, "\n"), m) {
			t.Errorf("%s: %q, want %s", c.Name, notes, m)
		}
	}
	if tried < 20 {
		t.Errorf("%d cases can be read, want 20 at least", tried)
	}
	for _, s := range policy.Settings {
		if !found[s.Name] {
			t.Errorf("%s: no case uses it", s.Name)
		}
	}
}

// The chart has the same settings and the same words for them.
func TestSettingsAreTheCharts(t *testing.T) {
	var values struct {
		ClaimPolicy struct{ Guarded []string }
	}
	if err := yaml.Unmarshal([]byte(read(t, "charts/plumbline/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	if len(values.ClaimPolicy.Guarded) != len(policy.Settings) {
		t.Errorf("the chart guards %q", values.ClaimPolicy.Guarded)
	}
	template := read(t, "charts/plumbline/templates/claimpolicy.yaml")
	for _, s := range policy.Settings {
		if !regexp.MustCompile(`"` + s.Name + `" \(list "[\w., ]+" "` + regexp.QuoteMeta(s.What) + `"`).MatchString(template) {
			t.Errorf("%s: the policy does not say %q", s.Name, s.What)
		}
	}
	if !strings.Contains(template, `"name" "`+policy.Policy+`"`) {
		t.Errorf("the policy is not named %s", policy.Policy)
	}
}
