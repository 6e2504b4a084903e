// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/machine"
)

func table(t *testing.T, name, node string) string {
	t.Helper()
	f, err := machine.OpenFacts(name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Table(f, node)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTable(t *testing.T) {
	lines := strings.Split(table(t, "a3-ultragpu-8g", "node-a"), "\n")
	want := []string{
		"# What the stand-in for libnvidia-ml.so.1 answers: machine a3-ultragpu-8g, node node-a.",
		"driver 580.126.20",
		"cuda 13.0",
		"gpu 0000:8f:00.0 0 GPU-5bf39e54-0ac9-569f-a928-28e55bb98fa1 10de:2335 143771 Hopper 9.0 Nvidia NVIDIA H200",
	}
	if diff := cmp.Diff(want, lines[:4]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := len(lines); got != 3+8+7+1 {
		t.Errorf("%d lines, want 3, one for each of 8 GPUs and of 7 profiles, and the end", got)
	}
	if got, want := lines[11], "mig 1g.18gb 0 19 1 7 16 1 1 1 0 16384 1 0,1,2,3,4,5,6 NVIDIA H200"; got != want {
		t.Errorf("profile: %s, want %s", got, want)
	}
}

// Products whose memory or brand the machine file lacks have what such a driver says.
func TestTableFillsIn(t *testing.T) {
	for name, want := range map[string]string{
		"egx-t4-cx5":            " 15360 Turing 7.5 Nvidia Tesla T4\n",
		"aws-p4d.24xlarge":      " 40960 Ampere 8.0 Nvidia NVIDIA A100-SXM4-40GB\n",
		"azure-nd96isr-h100-v5": " 81559 Hopper 9.0 Nvidia NVIDIA H100 80GB HBM3\n",
	} {
		if got := table(t, name, "n"); !strings.Contains(got, want) {
			t.Errorf("%s: want a line with %q, got:\n%s", name, want, got)
		}
	}
}

func TestNodesHaveTheirOwnGPUs(t *testing.T) {
	a, again, b := table(t, "a3-ultragpu-8g", "a"), table(t, "a3-ultragpu-8g", "a"), table(t, "a3-ultragpu-8g", "b")
	if a != again {
		t.Error("the same node has another table the second time")
	}
	seen := map[string]bool{}
	for line := range strings.Lines(a + b) {
		if columns := strings.Fields(line); columns[0] == "gpu" {
			seen[columns[3]] = true
		}
	}
	if len(seen) != 16 {
		t.Errorf("two nodes with 8 GPUs have %d UUIDs", len(seen))
	}
}

func TestMachinesWithoutTable(t *testing.T) {
	tpu, err := machine.OpenFacts("gcp-ct6e-standard-4t")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Table(tpu, "n"); err == nil || !strings.Contains(err.Error(), "gcp-ct6e-standard-4t has no GPU by NVIDIA") {
		t.Errorf("TPUs: %v", err)
	}
	f, err := machine.OpenFacts("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	f.GPUs[0].Model = "NVIDIA of tomorrow"
	f.GPUs[1].Address.Function = 1
	_, err = Table(f, "n")
	for _, want := range []string{`gpus gpu-0: model "NVIDIA of tomorrow"`, "gpus gpu-1: bdf 0000:90:00.1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got: %v", want, err)
		}
	}
}
