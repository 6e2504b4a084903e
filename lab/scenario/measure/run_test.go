// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// program stands for plumbline: it prints what a script says.
func program(t *testing.T, script string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "plumbline")
	if err := os.WriteFile(at, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return at
}

func scenarioOf(t *testing.T, script string, objects ...*batchv1.Job) (*run, *bytes.Buffer) {
	t.Helper()
	client := fake.NewClientset()
	for _, o := range objects {
		if _, err := client.BatchV1().Jobs(namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	c := Config{
		Cluster:   harness.Cluster{Client: client, Node: "host", Image: "busybox", Out: &out},
		Plumbline: scenario.Plumbline{Program: program(t, script)}, ToolImage: "iperf3", Dir: t.TempDir(),
	}
	return &run{Config: c, report: harness.Report{Scenario: "measure", Out: &out}}, &out
}

// A report that says another verdict than its runs is no measurement, nor is an exit code.
func TestMeasured(t *testing.T) {
	kept, err := filepath.Abs("../../../internal/bench/report/testdata/thrown-out.json")
	if err != nil {
		t.Fatal(err)
	}
	r, out := scenarioOf(t, "cat "+kept+"\n")
	if err := r.measured(t.Context(), "tcp, eth0", r.command(plan.TCP, "iperf3")); err != nil || !strings.Contains(out.String(), "ok     bench tcp, eth0: eth0 throughput is lower") {
		t.Errorf("%v: %s", err, out)
	}
	r, out = scenarioOf(t, "echo no cluster >&2; exit 5\n")
	if err := r.measured(t.Context(), "tcp, eth0", r.command(plan.TCP, "iperf3")); err != nil || !strings.Contains(out.String(), "WRONG  bench tcp, eth0: exit code 5: no cluster") {
		t.Errorf("%v: %s", err, out)
	}
	r, _ = scenarioOf(t, "sed s/lower/higher/ "+kept+"\n")
	if err := r.measured(t.Context(), "tcp, eth0", r.command(plan.TCP, "iperf3")); err == nil {
		t.Error("a report that contradicts itself passed")
	}
}

func TestNothingLeft(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "keeper", Labels: map[string]string{plan.Label: "x"}}}
	r, out := scenarioOf(t, "exit 6\n", job)
	if err := r.noTool(t.Context()); err != nil || !strings.Contains(out.String(), "ok     an image without iperf3") ||
		!strings.Contains(out.String(), "WRONG  after that: left are job keeper") {
		t.Errorf("%v: %s", err, out)
	}
	if err := r.report.Verdict(nil); !errors.Is(err, harness.ErrFailed) {
		t.Error(err)
	}
}
