// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/metrics"
	"plumbline.dev/plumbline/internal/metrics/endpoint"
	"plumbline.dev/plumbline/lab/prometheus"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

const metricsPage = "../../../docs/metrics.md"

// debianPrometheus finds Prometheus as deploy/monitoring finds its promtool.
func debianPrometheus(t *testing.T) string {
	t.Helper()
	program := "prometheus"
	if unpacked := os.Getenv("PLUMBLINE_PROMETHEUS"); unpacked != "" {
		program = filepath.Join(unpacked, "usr/bin", program)
	}
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("prometheus is missing, and CI must have it: %v", err)
		}
		t.Skipf("prometheus is missing: %v; install Debian's prometheus", err)
	}
	return path
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// reviewers is an API server that knows the tokens of both accounts.
func reviewers() *fake.Clientset {
	c := fake.NewClientset()
	c.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status.Authenticated = strings.HasPrefix(review.Spec.Token, "token of ")
		review.Status.User.Username = strings.TrimPrefix(review.Spec.Token, "token of ")
		return true, review, nil
	})
	c.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = review.Spec.User == reader
		return true, review, nil
	})
	return c
}

// served has figures served as agents and the operator serve theirs.
func served(t *testing.T, figures http.Handler) (address string) {
	t.Helper()
	address = freeAddress(t)
	if err := endpoint.Serve(t.Context(), endpoint.Options{Address: address, Name: "node", Client: reviewers()}, figures); err != nil {
		t.Fatal(err)
	}
	return address
}

// agentFigures are those of an agent with a pod on a whole host.
func agentFigures() *metrics.Metrics {
	m := metrics.New()
	now := time.Now()
	m.Prepared("dra.net", metrics.StepTotal, now)
	m.Claim("dra.net", metrics.CallPrepare, "")
	m.Attached("dra.net", now, nil)
	m.Published("dra.net", 8, 0)
	m.Verified(now, map[string]int{"Aligned": 1, "Misaligned": 0}, 0)
	m.HoldingsFrom(func() map[string]metrics.Holding {
		return map[string]metrics.Holding{"dra.net": {Claims: 1, Devices: 1}}
	})
	m.CPUsFrom(func() metrics.CPUs { return metrics.CPUs{Nodes: map[string]map[string]int{"0": {"available": 2}}} })
	m.HostChecked("runtime", "functional", 0)
	return m
}

// TestPrometheus runs Debian's Prometheus with the page's settings on what agents and
// operator serve: all but the cluster is as in the run.
func TestPrometheus(t *testing.T) {
	program := debianPrometheus(t)
	figures := agentFigures()
	targets := []string{served(t, figures.Handler()), served(t, metrics.NewExplainer().Handler())}
	job, err := scrapeJob(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	rules, queries, err := monitoring()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		rulesFile: rules, tokenFile(reader): []byte("token of " + reader), tokenFile(stranger): []byte("token of " + stranger),
	}
	if files[prometheus.ConfigurationFile], err = configuration(job, targets); err != nil {
		t.Fatal(err)
	}
	dir, address := t.TempDir(), freeAddress(t)
	if err := os.Mkdir(filepath.Join(dir, "logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	dial := new(net.Dialer).DialContext
	if err := prometheus.Up(t.Context(), prometheus.Config{Program: program, Dir: dir, Address: address, Dial: dial, Files: files}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := prometheus.Down(context.WithoutCancel(t.Context()), dir); err != nil {
			t.Error(err)
		}
	})

	var out bytes.Buffer
	r := &run{Config: Config{Checkout: "../../.."}, watcher: newWatcher(address, dial)}
	r.Out = &out
	r.report = harness.Report{Scenario: "install", Out: &out}
	if err := r.watch(t.Context(), targets, rules, queries); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []int{0, 2, 0} {
		figures.HostChecked("runtime", "functional", wrong)
		if err := r.alerted(t.Context(), wrong > 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("the run says\n%s", out.String())
	for _, want := range []string{
		"2 of agents and operator are up\n", "returned HTTP status 401", "returned HTTP status 403",
		"(pending: check runtime on " + targets[0] + ")", "have not: plumbline_agent_detach_seconds_bucket, ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the run does not say %q", want)
		}
	}
	if err := r.report.Verdict(nil); err != nil {
		t.Error(err)
	}
}

func TestConfiguration(t *testing.T) {
	text, err := configuration(map[string]any{
		"job_name": "x", "scheme": "https", "authorization": map[string]any{"credentials_file": "/token"},
	}, []string{"10.0.2.15:9178"})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Jobs []map[string]any `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	to := []any{map[string]any{"targets": []any{"10.0.2.15:9178"}}}
	want := []map[string]any{
		{"job_name": "plumbline", "scheme": "https", "static_configs": to, "authorization": map[string]any{"credentials_file": "prometheus.token"}},
		{"job_name": "without a token", "scheme": "https", "static_configs": to},
		{"job_name": "of another account", "scheme": "https", "static_configs": to, "authorization": map[string]any{"credentials_file": "stranger.token"}},
	}
	if diff := cmp.Diff(want, got.Jobs); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

// The page's job is what is tried, but for how it finds its targets.
func TestScrapeJob(t *testing.T) {
	job, err := scrapeJob(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"job_name": readerJob, "scheme": "https", "tls_config": map[string]any{"insecure_skip_verify": true},
		"authorization": map[string]any{"credentials_file": "/var/run/secrets/kubernetes.io/serviceaccount/token"},
	}
	if diff := cmp.Diff(want, job); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	for text, told := range map[string]string{
		"# Page\n": "no block of yaml",
		"\n```yaml\nscrape_configs:\n  - job_name: x\n":        "no block of yaml",
		"\n```yaml\nscrape_configs:\n  - job_name: x\n```\n":   "want one, with authorization",
		"\n```yaml\nscrape_configs:\n  - job_name: [x\n```\n":  "scrape_configs: ",
		"\n```yaml\nscrape_configs:\n  []\n```\n":              "0 jobs",
		"\n```yaml\nscrape_configs:\n  job_name: x\n```\nText": "scrape_configs: ",
	} {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := scrapeJob(page); err == nil || !strings.Contains(err.Error(), told) {
			t.Errorf("%q: error %v, want one with %q", text, err, told)
		}
	}
}

func TestAddresses(t *testing.T) {
	yes, no, port := true, false, int32(9178)
	slice := func(endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{Endpoints: endpoints, Ports: []discoveryv1.EndpointPort{{Port: &port}}}
	}
	ready := discoveryv1.Endpoint{Addresses: []string{"10.0.2.15"}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}}
	unready := discoveryv1.Endpoint{Addresses: []string{"fd00::1"}, Conditions: discoveryv1.EndpointConditions{Ready: &no}}
	for name, tt := range map[string]struct {
		slices   []discoveryv1.EndpointSlice
		want     []string
		complete bool
	}{
		"no slice":     {nil, nil, false},
		"no endpoint":  {[]discoveryv1.EndpointSlice{slice()}, nil, false},
		"one":          {[]discoveryv1.EndpointSlice{slice(ready)}, []string{"10.0.2.15:9178"}, true},
		"one is not":   {[]discoveryv1.EndpointSlice{slice(ready), slice(unready)}, []string{"10.0.2.15:9178", "[fd00::1]:9178"}, false},
		"not known":    {[]discoveryv1.EndpointSlice{slice(discoveryv1.Endpoint{Addresses: []string{"10.0.2.15"}})}, []string{"10.0.2.15:9178"}, true},
		"of no port":   {[]discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{ready}}}, nil, false},
		"no addresses": {[]discoveryv1.EndpointSlice{slice(discoveryv1.Endpoint{})}, nil, false},
	} {
		got, complete := addresses(tt.slices)
		if !slices.Equal(got, tt.want) || complete != tt.complete {
			t.Errorf("%s: %q, %t, want %q, %t", name, got, complete, tt.want, tt.complete)
		}
	}
}

func TestLacking(t *testing.T) {
	later := map[string]bool{"plumbline_agent_detach_seconds": true, "plumbline_agent_repairs_total": true}
	names := metricNames([]string{
		"sum(plumbline_agent_detach_seconds_bucket{a=\"b\"}) or plumbline_agent_cpus", "plumbline_agent_repairs_total > plumbline_agent_gone + plumbline_agent_cpus",
	})
	missing, absent := lacking(names, []string{"plumbline_agent_cpus", "up"}, later)
	if diff := cmp.Diff([][]string{{"plumbline_agent_gone"}, {"plumbline_agent_detach_seconds_bucket", "plumbline_agent_repairs_total"}}, [][]string{missing, absent}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := withEvents([]byte("# Page\n")); err == nil {
		t.Error("a page without the list is taken")
	}
}
