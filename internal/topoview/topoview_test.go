// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview_test

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/inventory/inventorytest"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/topoview"
)

func text(t testing.TB, topology *topoview.Topology, o topoview.TextOptions) string {
	t.Helper()
	var out bytes.Buffer
	if err := topoview.Text(&out, topology, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	golden.Assert(t, filepath.Join("testdata", name), got)
}

func TestTextGolden(t *testing.T) {
	for _, file := range append(machine.Names(), "testdata/thirty-two-nics.yaml", "testdata/memory-only-nodes.yaml", "testdata/four-nodes.yaml") {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			topology := topoview.Build(inventorytest.Machine(t, file), topoview.Options{Source: "a test"})
			compare(t, name+".txt", text(t, topology, topoview.TextOptions{}))
		})
	}
}

// heldTopology is an A3 Ultra with the mission's aligned claim, a claim of
// CPUs of which only the number is known, and a stand-in.
func heldTopology(t *testing.T) *topoview.Topology {
	m := inventorytest.Machine(t, "a3-ultragpu-8g")
	m.GPUs[0].Simulated = ptr.To("bochs-display as NVIDIA H200")
	m.NICs[7].Withheld = ptr.To("carries the default route")
	aligned := topoview.Holder{Namespace: "default", Claim: "aligned-resource-claim", Pods: []string{"aligned-gpu-nic-cpu-pod"}}
	alignedCPUs := aligned
	alignedCPUs.CPUs, alignedCPUs.CPUCount = cpuset.New(1, 2, 113, 114), 4
	batch := topoview.Holder{Namespace: "batch", Claim: "cores", CPUCount: 8}
	return topoview.Build(m, topoview.Options{
		Name: "gpu-node-1", Source: "a test", Notes: []string{"a note"}, HoldersKnown: true,
		Holders: map[topoview.DeviceID][]topoview.Holder{
			{Driver: "gpu.nvidia.com", Name: "gpu-0"}:     {aligned},
			{Driver: "dra.net", Name: "pci-0000-91-00-0"}: {aligned},
			{Driver: "dra.cpu", Name: "cpudevnuma000"}:    {alignedCPUs, batch},
			{Driver: "dra.net", Name: "gone"}:             {batch},
		},
	})
}

func TestHeldGolden(t *testing.T) {
	topology := heldTopology(t)
	compare(t, "held.txt", text(t, topology, topoview.TextOptions{}))
	compare(t, "held-ascii.txt", text(t, topology, topoview.TextOptions{ASCII: true}))
	var out bytes.Buffer
	if err := writeJSON(&out, topology); err != nil {
		t.Fatal(err)
	}
	compare(t, "held.json", out.String())
}

func TestASCIIIsASCII(t *testing.T) {
	for i, r := range text(t, heldTopology(t), topoview.TextOptions{ASCII: true}) {
		if r > unicode.MaxASCII {
			t.Fatalf("character %q at byte %d", r, i)
		}
	}
}

// writeJSON is what the commands do.
func writeJSON(w io.Writer, t *topoview.Topology) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(t)
}

func TestJSONReadsBack(t *testing.T) {
	want := heldTopology(t)
	var out bytes.Buffer
	if err := writeJSON(&out, want); err != nil {
		t.Fatal(err)
	}
	var got topoview.Topology
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Errorf("JSON loses (-want +got):\n%s", diff)
	}
}
