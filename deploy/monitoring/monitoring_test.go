// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/metrics"
	"plumbline.dev/plumbline/internal/operator/explainer"
	"plumbline.dev/plumbline/internal/verify/evaluate"
)

// rule is an alert as Prometheus reads it.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func chartFile(t *testing.T, name string) []byte {
	t.Helper()
	chart, err := deploy.Chart()
	if err != nil {
		t.Fatal(err)
	}
	data, err := fs.ReadFile(chart, name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(chartFile(t, "monitoring/rules.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// promtool finds Prometheus' own checker: on the path, or of Debian's package unpacked
// below $PLUMBLINE_PROMETHEUS.
func promtool(t *testing.T) string {
	t.Helper()
	program := "promtool"
	if unpacked := os.Getenv("PLUMBLINE_PROMETHEUS"); unpacked != "" {
		program = filepath.Join(unpacked, "usr/bin", program)
	}
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("promtool is missing, and CI must have it: %v", err)
		}
		t.Skipf("promtool is missing: %v; install Debian's prometheus", err)
	}
	return path
}

// TestRules has Prometheus judge what the alerts say of series.
func TestRules(t *testing.T) {
	program, dir := promtool(t), t.TempDir()
	series, err := os.ReadFile("rules_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"rules.yaml": chartFile(t, "monitoring/rules.yaml"), "rules_test.yaml": series} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	for _, r := range rules(t) {
		if fires := "alertname: " + r.Alert + "\n        exp_alerts:"; !strings.Contains(string(series), fires) {
			t.Errorf("rules_test.yaml has no series on which %s fires", r.Alert)
		}
	}
}

// TestEveryAlertHasARunbook: a page that says what it means, what to look at and what to
// do, and no page without its alert.
func TestEveryAlertHasARunbook(t *testing.T) {
	var alerts []string
	for _, r := range rules(t) {
		alerts = append(alerts, r.Alert)
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
		if want := "https://plumbline.dev/docs/runbooks/" + r.Alert; r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		page, err := os.ReadFile("../../docs/runbooks/" + r.Alert + ".md")
		if err != nil {
			t.Error(err)
			continue
		}
		for _, heading := range []string{"# " + r.Alert + "\n", "\n## What it means\n", "\n## What to look at\n", "\n## What to do\n"} {
			if !strings.Contains(string(page), heading) {
				t.Errorf("the page of %s has no heading %q", r.Alert, strings.TrimSpace(heading))
			}
		}
	}
	pages, err := filepath.Glob("../../docs/runbooks/Plumbline*.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, page := range pages {
		named = append(named, strings.TrimSuffix(filepath.Base(page), ".md"))
	}
	slices.Sort(alerts)
	if diff := cmp.Diff(alerts, named); diff != "" {
		t.Errorf("alerts (-) and pages (+):\n%s", diff)
	}
}

type dashboard struct {
	Panels []struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		Targets     []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

// queries are the expressions of the dashboard, with values for Grafana's variables.
func queries(t *testing.T) []string {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal(chartFile(t, "monitoring/dashboard.json"), &d); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range d.Panels {
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q: want a title, a description and a query", p.Title)
		}
		for _, target := range p.Targets {
			all = append(all, strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(target.Expr))
		}
	}
	return all
}

// TestDashboardQueries has Prometheus parse what the dashboard asks.
func TestDashboardQueries(t *testing.T) {
	type recording struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var all []recording
	for i, query := range queries(t) {
		all = append(all, recording{Record: fmt.Sprintf("panel:%d", i), Expr: query})
	}
	data, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": all}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool(t), "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

var (
	named    = regexp.MustCompile(`\b(plumbline_[a-z_]+)(\{[^}]*\})?`)
	selected = regexp.MustCompile(`([a-z_]+)(?:=~|=)"`)
	// added are labels that Prometheus adds where it scrapes.
	added = []string{"instance"}
)

// TestMetricsThereAre: alerts and dashboard ask for metrics that the programs have, by
// labels that these have.
func TestMetricsThereAre(t *testing.T) {
	known := map[string]metrics.Definition{}
	for _, d := range append(metrics.Definitions(), metrics.ExplainerDefinitions()...) {
		known[d.Name] = d
	}
	expressions := queries(t)
	for _, r := range rules(t) {
		expressions = append(expressions, r.Expr)
	}
	for _, expr := range expressions {
		for _, use := range named.FindAllStringSubmatch(expr, -1) {
			d, ok := known[use[1]]
			if !ok {
				d, ok = known[strings.TrimSuffix(use[1], "_bucket")]
			}
			if !ok {
				t.Errorf("%s: no metric %s; there are %s", expr, use[1], strings.Join(slices.Sorted(maps.Keys(known)), ", "))
				continue
			}
			for _, label := range selected.FindAllStringSubmatch(use[2], -1) {
				if !slices.Contains(append(slices.Clone(d.Labels), added...), label[1]) {
					t.Errorf("%s: %s has no label %s", expr, use[1], label[1])
				}
			}
		}
	}
}

// TestRunbooksNameEvents: events are looked for by reasons that there are.
func TestRunbooksNameEvents(t *testing.T) {
	known := []string{
		status.PrepareFailed, status.AttachFailed, status.RestoreFailed, status.Refused, string(evaluate.WordMisaligned), explainer.Reason,
		"FailedPrepareDynamicResources", // the kubelet's (pkg/kubelet/events)
	}
	pages, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	reason := regexp.MustCompile(`reason=(\w+)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range reason.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(known, found[1]) {
				t.Errorf("%s looks for events of reason %s, want one of %s", filepath.Base(page), found[1], strings.Join(known, ", "))
			}
		}
	}
}
