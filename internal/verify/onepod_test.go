// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/cpuset"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// TestOnePod replays every stop of docs/one-pod.md: a pod that is as claimed, and
// farther apart than its machine could have given it.
func TestOnePod(t *testing.T) {
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	p := n.NewPod("train")
	allocated := n.Give(p, verifytest.Ours(), []int{2}, []int{2}, cpuset.New(60, 61, 62, 63))
	n.Write(t, p)
	expected := allocated.Expect()
	got := look(t, n, n.Reader(t), p, expected)
	report := verify.NewReport(n.Machine, n.Name, time.Time{}, []verify.Result{got}).Pods[0]
	docstest.Follow(t, "one-pod.md", []docstest.Stop{
		{Name: "claim", Text: asYAML(t, allocated.Claim.Status.Allocation.Devices)},
		{Name: "expect", Text: expectedOf(expected)},
		{Name: "kernel", Text: foundOf(got.Observed)},
		{Name: "findings", Text: findingsOf(got.Outcome)},
		{Name: "nearest", Text: asYAML(t, report.Pairs)},
		{Name: "verdict", Text: asYAML(t, map[string]any{"verdict": report.Verdict, "asClaimed": report.AsClaimed, "aligned": report.Aligned})},
	})
}

func expectedOf(p expect.Pod) string {
	var out strings.Builder
	for _, d := range p.Claims[0].Devices {
		fmt.Fprintf(&out, "%s: %s %s", d.Request, d.Kind, d.Name)
		if d.PCI != nil {
			fmt.Fprintf(&out, ", PCI function %s", d.PCI)
		}
		if d.Interface != "" {
			fmt.Fprintf(&out, ", interface %s in the pod", d.Interface)
		}
		if d.CPUCount > 0 {
			fmt.Fprintf(&out, ", %d CPUs of NUMA node %d", d.CPUCount, *d.NUMANode)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func foundOf(p collect.Pod) string {
	var out strings.Builder
	for _, i := range p.Network.Interfaces {
		if i.PCI != nil {
			fmt.Fprintf(&out, "interface %s: PCI function %s\n", i.Name, i.PCI)
		}
	}
	for _, c := range p.Containers {
		fmt.Fprintf(&out, "container %s: CPUs %s, memory of nodes %s\n", c.Name, c.Granted.CPUs, c.Granted.Mems)
		for _, claim := range slices.Sorted(maps.Keys(c.EnvCPUs)) {
			fmt.Fprintf(&out, "container %s: DRA_CPUSET of claim %s is %s\n", c.Name, claim, c.EnvCPUs[claim])
		}
		for _, f := range c.Files {
			fmt.Fprintf(&out, "container %s: file %s of PCI function %s\n", c.Name, f.Path, f.PCI)
		}
	}
	return out.String()
}

func findingsOf(o evaluate.Outcome) string {
	var out strings.Builder
	for _, f := range o.Findings {
		fmt.Fprintf(&out, "%-5s %s: %s\n", f.State, f.What, f.Why)
	}
	return out.String()
}

func asYAML(t *testing.T, v any) string {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
