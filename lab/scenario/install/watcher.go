// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// watcher is a Prometheus that runs, asked by its API
// (prometheus.io/docs/prometheus/latest/querying/api).
type watcher struct {
	address string
	client  *http.Client
}

func newWatcher(address string, dial func(ctx context.Context, network, address string) (net.Conn, error)) *watcher {
	return &watcher{address: address, client: &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
	}}
}

// answerLimit is more than any answer here has.
const answerLimit = 16 << 20

// ask reads the data of an answer.
func (w *watcher) ask(ctx context.Context, path string, query url.Values, into any) error {
	at := url.URL{Scheme: "http", Host: w.address, Path: "/api/v1/" + path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return fmt.Errorf("ask Prometheus for %s: %w", path, err)
	}
	var answer struct {
		Status string          `json:"status"`
		Error  string          `json:"error"`
		Data   json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("ask Prometheus for %s: %s: %w", path, response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("ask Prometheus for %s: %s: %s", path, response.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// target is what the last scrape of one came to.
type target struct {
	Labels    map[string]string `json:"labels"`
	Health    string            `json:"health"`
	LastError string            `json:"lastError"`
}

func (t target) scraped() bool { return t.Health == "up" }

// complaints are the errors of targets, each once.
func complaints(all []target) string {
	var told []string
	for _, t := range all {
		if t.LastError != "" && !slices.Contains(told, t.LastError) {
			told = append(told, t.LastError)
		}
	}
	if len(told) == 0 {
		return ""
	}
	return " (" + strings.Join(told, "; ") + ")"
}

// await waits until there are so many targets, each was scraped or refused once, and
// those of who may read answer. It returns them by their jobs.
func (w *watcher) await(ctx context.Context, n int) (jobs map[string][]target, err error) {
	err = harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var list struct {
			Active []target `json:"activeTargets"`
		}
		if err := w.ask(ctx, "targets", url.Values{"state": {"active"}}, &list); err != nil {
			return false, err
		}
		jobs = map[string][]target{}
		done := len(list.Active) == n
		for _, t := range list.Active {
			job := t.Labels["job"]
			jobs[job] = append(jobs[job], t)
			done = done && t.Health != "unknown" && (t.scraped() || job != readerJob)
		}
		return done, nil
	})
	if errors.Is(err, harness.ErrTimeout) {
		err = nil // what is so is told
	}
	return jobs, err
}

// sample is one value of an instant vector.
type sample struct {
	Metric map[string]string `json:"metric"`
	// Value is a time and a text.
	Value [2]any `json:"value"`
}

func (w *watcher) query(ctx context.Context, query string) ([]sample, error) {
	var vector struct {
		Result []sample `json:"result"`
	}
	err := w.ask(ctx, "query", url.Values{"query": {query}}, &vector)
	return vector.Result, err
}

// ups are the values of the series up of a job, by instance.
func (w *watcher) ups(ctx context.Context, job string) (map[string]string, error) {
	vector, err := w.query(ctx, fmt.Sprintf("up{job=%q}", job))
	values := map[string]string{}
	for _, s := range vector {
		values[s.Metric["instance"]] = fmt.Sprint(s.Value[1])
	}
	return values, err
}

// rules waits until every rule was evaluated, and returns their names in order, and what
// went wrong.
func (w *watcher) rules(ctx context.Context) (names, wrong []string, err error) {
	err = harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var list struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		err := w.ask(ctx, "rules", nil, &list)
		names, wrong = nil, nil
		for _, group := range list.Groups {
			for _, rule := range group.Rules {
				names = append(names, rule.Name)
				if rule.Health != "ok" {
					wrong = append(wrong, fmt.Sprintf("%s: %s %s", rule.Name, rule.Health, rule.LastError))
				}
			}
		}
		return len(names) > 0 && len(wrong) == 0, err
	})
	if errors.Is(err, harness.ErrTimeout) {
		err = nil // what is so is told
	}
	slices.Sort(names)
	return names, wrong, err
}

// metrics are the names of what a job has.
func (w *watcher) metrics(ctx context.Context, job string) (names []string, err error) {
	err = w.ask(ctx, "label/__name__/values", url.Values{"match[]": {fmt.Sprintf("{job=%q}", job)}}, &names)
	return names, err
}

// alerts are those of a name that are pending or fire, each as one text.
func (w *watcher) alerts(ctx context.Context, name string) (raised []string, err error) {
	var list struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	if err := w.ask(ctx, "alerts", nil, &list); err != nil {
		return nil, err
	}
	for _, alert := range list.Alerts {
		if alert.Labels["alertname"] == name {
			raised = append(raised, fmt.Sprintf("(%s: check %s on %s)", alert.State, alert.Labels["check"], alert.Labels["instance"]))
		}
	}
	return raised, nil
}

var (
	ownMetric = regexp.MustCompile(`\bplumbline_(?:agent|explainer)_[a-z_]+`)
	alertName = regexp.MustCompile(`(?m)^ *- alert: (\w+)$`)
)

// metricNames are plumbline's own in texts, in order.
func metricNames(texts []string) []string {
	var names []string
	for _, text := range texts {
		names = append(names, ownMetric.FindAllString(text, -1)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// alertNames are those of a file of rules, in order.
func alertNames(rules []byte) (names []string) {
	for _, found := range alertName.FindAllSubmatch(rules, -1) {
		names = append(names, string(found[1]))
	}
	slices.Sort(names)
	return names
}

// withEvents are the metrics of which the page says that they come with an event.
func withEvents(page []byte) (map[string]bool, error) {
	_, below, found := strings.Cut(string(page), "<!-- with events: begin -->")
	list, _, closed := strings.Cut(below, "<!-- with events: end -->")
	if !found || !closed {
		return nil, errors.New("read docs/metrics.md: no list of the metrics that come with events")
	}
	names := map[string]bool{}
	for _, name := range ownMetric.FindAllString(list, -1) {
		names[name] = true
	}
	return names, nil
}

// lacking says which of the names are not there: those that must be, and those that
// come later.
func lacking(names, have []string, later map[string]bool) (missing, absent []string) {
	for _, name := range names {
		switch {
		case slices.Contains(have, name):
		case later[strings.TrimSuffix(name, "_bucket")]:
			absent = append(absent, name)
		default:
			missing = append(missing, name)
		}
	}
	return missing, absent
}
