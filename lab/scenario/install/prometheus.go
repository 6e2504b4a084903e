// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/lab/prometheus"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// The accounts of scrapers, of which binding lets one read.
const (
	reader   = "prometheus"
	stranger = "stranger"
	binding  = "plumblab-install-prometheus"
)

// metricsServices are the chart's Services of what is scraped.
var metricsServices = []string{"plumbline-agent-metrics", "plumbline-operator-metrics"}

// hostAlert is the alert of a host of which a check says that something does not work.
const hostAlert = "PlumblineHostBroken"

// rulesFile is the alerts' name in the chart's archive without its folder, and
// Prometheus' own for them.
const rulesFile = "rules.yaml"

// scrapeEvery is short, since the run waits for it, and leaves time for an answer.
const scrapeEvery = "2s"

// refused are the jobs that must not get any figures, and the status that they get: who
// shows no token, and whose account has no right to read.
var refused = []struct{ job, account, status string }{
	{"without a token", "", "401"},
	{"of another account", stranger, "403"},
}

// scrape has Prometheus scrape agents and operator with the settings of docs/metrics.md,
// and asks it what it got.
func (r *run) scrape(ctx context.Context) error {
	targets, err := r.targets(ctx)
	if err != nil {
		return err
	}
	job, err := scrapeJob(filepath.Join(r.Checkout, "docs", "metrics.md"))
	if err != nil {
		return err
	}
	rules, queries, err := monitoring()
	if err != nil {
		return err
	}
	files, err := r.tokens(ctx)
	if err != nil {
		return err
	}
	files[rulesFile] = rules
	if files[prometheus.ConfigurationFile], err = configuration(job, targets); err != nil {
		return err
	}
	if err := r.StartPrometheus(ctx, files); err != nil {
		return err
	}
	r.watcher = newWatcher(r.PrometheusAddress, r.Dial)
	return r.watch(ctx, targets, rules, queries)
}

// watch asks Prometheus what it has scraped and what it makes of the chart's rules and
// dashboard.
func (r *run) watch(ctx context.Context, targets []string, rules []byte, queries []string) error {
	jobs, err := r.watcher.await(ctx, len(targets)*(1+len(refused)))
	if err != nil {
		return err
	}
	ups, err := r.watcher.ups(ctx, readerJob)
	if err != nil {
		return err
	}
	up := slices.DeleteFunc(slices.Clone(targets), func(target string) bool { return ups[target] != "1" })
	r.report.Finding(len(up) == len(targets), "Prometheus", "scrapes %s: %s of agents and operator are up%s",
		strings.Join(targets, ", "), strconv.Itoa(len(up)), complaints(jobs[readerJob]))
	for _, other := range refused {
		told := jobs[other.job]
		ok := len(told) == len(targets) && !slices.ContainsFunc(told, func(t target) bool { return t.scraped() || !strings.Contains(t.LastError, other.status) })
		r.report.Finding(ok, "a scrape "+other.job, "is refused%s", complaints(told))
	}
	loaded, wrong, err := r.watcher.rules(ctx)
	if err != nil {
		return err
	}
	want := alertNames(rules)
	r.report.Finding(len(wrong) == 0 && slices.Equal(loaded, want), "the chart's alerts", "%d of %d are evaluated", len(loaded), len(want))
	r.report.Wrong(wrong...)
	for _, query := range queries {
		if _, err := r.watcher.query(ctx, query); err != nil {
			r.report.Wrong("the dashboard's " + query + ": " + err.Error())
		}
	}
	return r.figures(ctx, append(queries, string(rules)))
}

// figures checks that there is each metric that these texts name, but for those that
// the page says come with an event.
func (r *run) figures(ctx context.Context, texts []string) error {
	page, err := os.ReadFile(filepath.Join(r.Checkout, "docs", "metrics.md"))
	if err != nil {
		return err
	}
	later, err := withEvents(page)
	if err != nil {
		return err
	}
	// The run has brought these about: a pod has its NIC.
	for _, brought := range []string{"plumbline_agent_attach_seconds", "plumbline_agent_prepare_seconds", "plumbline_agent_claims_total"} {
		delete(later, brought)
	}
	names := metricNames(texts)
	var missing, absent []string
	err = harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		have, err := r.watcher.metrics(ctx, readerJob)
		missing, absent = lacking(names, have, later)
		return len(missing) == 0, err
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	r.report.Finding(len(missing) == 0, "alerts and dashboard", "name %d metrics, of which %d come with an event and have not: %s",
		len(names), len(absent), strings.Join(absent, ", "))
	for _, name := range missing {
		r.report.Wrong("no target has " + name)
	}
	return nil
}

// alerted waits until Prometheus has the alert of a broken host, or none.
func (r *run) alerted(ctx context.Context, broken bool) error {
	var alerts []string
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		alerts, err = r.watcher.alerts(ctx, hostAlert)
		return (len(alerts) > 0) == broken, err
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	r.report.Finding(err == nil, hostAlert, "%d raised %s", len(alerts), strings.Join(alerts, ", "))
	return nil
}

// stopScraping ends Prometheus, and removes what let it read. Its accounts go with their
// namespace.
func (r *run) stopScraping(ctx context.Context) error {
	r.watcher = nil
	if err := r.StopPrometheus(ctx); err != nil {
		return err
	}
	_, err := r.Kubectl.Run(ctx, "delete", "clusterrolebinding", binding, "--ignore-not-found")
	return err
}

// targets waits for those of the chart's Services to serve, and returns their addresses.
func (r *run) targets(ctx context.Context) (all []string, err error) {
	var waiting []string
	err = harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		all, waiting = nil, nil
		for _, service := range metricsServices {
			list, err := r.Client.DiscoveryV1().EndpointSlices(deploy.Namespace).List(ctx, metav1.ListOptions{
				LabelSelector: discoveryv1.LabelServiceName + "=" + service,
			})
			if err != nil {
				return false, err
			}
			found, complete := addresses(list.Items)
			if !complete {
				waiting = append(waiting, service)
			}
			all = append(all, found...)
		}
		return len(waiting) == 0, nil
	})
	if errors.Is(err, harness.ErrTimeout) {
		return nil, fmt.Errorf("endpoints of %s: want some, and each of them ready: %w", strings.Join(waiting, ", "), err)
	}
	return all, err
}

// addresses are those of a Service's endpoints; complete says whether there are some
// and each is ready.
func addresses(list []discoveryv1.EndpointSlice) (all []string, complete bool) {
	complete = true
	for _, slice := range list {
		for _, endpoint := range slice.Endpoints {
			if ready := endpoint.Conditions.Ready; ready != nil && !*ready {
				complete = false
			}
			for _, port := range slice.Ports {
				if port.Port != nil && len(endpoint.Addresses) > 0 {
					all = append(all, net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*port.Port))))
				}
			}
		}
	}
	return all, complete && len(all) > 0
}

// tokens makes the accounts, lets one of them read as docs/metrics.md says, and returns
// their tokens by the names of files.
func (r *run) tokens(ctx context.Context) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, account := range []string{reader, stranger} {
		if _, err := r.Kubectl.Run(ctx, "create", "serviceaccount", account, "-n", namespace); err != nil {
			return nil, err
		}
		token, err := r.Kubectl.Run(ctx, "create", "token", account, "-n", namespace)
		if err != nil {
			return nil, err
		}
		files[tokenFile(account)] = []byte(strings.TrimSpace(token))
	}
	_, err := r.Kubectl.Run(ctx, "create", "clusterrolebinding", binding,
		"--clusterrole=plumbline-metrics-reader", "--serviceaccount="+namespace+":"+reader)
	return files, err
}

func tokenFile(account string) string { return account + ".token" }

// scrapeJob is the one that a page shows below its heading on scraping, as far as it
// says how: where is Prometheus' own discovery, which Debian's has not for Kubernetes.
func scrapeJob(page string) (map[string]any, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, below, _ := bytes.Cut(text, []byte("\n```yaml\nscrape_configs:\n"))
	block, _, closed := bytes.Cut(below, []byte("\n```\n"))
	if !closed {
		return nil, fmt.Errorf("read %s: no block of yaml that begins with scrape_configs", page)
	}
	var jobs []map[string]any
	if err := yaml.Unmarshal(block, &jobs); err != nil {
		return nil, fmt.Errorf("read %s: scrape_configs: %w", page, err)
	}
	if len(jobs) != 1 || jobs[0]["authorization"] == nil {
		return nil, fmt.Errorf("read %s: scrape_configs: %d jobs: want one, with authorization", page, len(jobs))
	}
	delete(jobs[0], "kubernetes_sd_configs")
	delete(jobs[0], "relabel_configs")
	return jobs[0], nil
}

// readerJob is the job of who may read.
const readerJob = "plumbline"

// configuration is that of a Prometheus that scrapes targets by the job as the account
// that may, and again as those that may not.
func configuration(job map[string]any, targets []string) ([]byte, error) {
	jobs := []any{variant(job, readerJob, reader, targets)}
	for _, other := range refused {
		jobs = append(jobs, variant(job, other.job, other.account, targets))
	}
	return yaml.Marshal(map[string]any{
		"global": map[string]any{
			"scrape_interval": scrapeEvery, "scrape_timeout": scrapeEvery, "evaluation_interval": scrapeEvery,
		},
		"rule_files":     []any{rulesFile},
		"scrape_configs": jobs,
	})
}

// variant is the job under another name, as another account, or none.
func variant(job map[string]any, name, account string, targets []string) map[string]any {
	of := maps.Clone(job)
	of["job_name"] = name
	of["static_configs"] = []any{map[string]any{"targets": targets}}
	delete(of, "authorization")
	if account != "" {
		of["authorization"] = map[string]any{"credentials_file": tokenFile(account)}
	}
	return of
}

// monitoring reads the chart's alerts, and what its dashboard asks, with values for
// Grafana's variables.
func monitoring() (rules []byte, queries []string, err error) {
	chart, err := deploy.Chart()
	if err != nil {
		return nil, nil, err
	}
	if rules, err = fs.ReadFile(chart, "monitoring/"+rulesFile); err != nil {
		return nil, nil, err
	}
	text, err := fs.ReadFile(chart, "monitoring/dashboard.json")
	if err != nil {
		return nil, nil, err
	}
	var dashboard struct {
		Panels []struct {
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return nil, nil, fmt.Errorf("read the dashboard: %w", err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*")
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, variables.Replace(target.Expr))
		}
	}
	return rules, queries, nil
}
