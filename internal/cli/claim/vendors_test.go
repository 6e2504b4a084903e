// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/simulate"
)

// Nodes of the drivers of others are filled as they are, and what is left is
// counted as a topology's room is.
func TestSimulateOnOtherDrivers(t *testing.T) {
	requireGolden(t, "simulate-vendors.txt", simulated(t, "testdata/vendors.yaml", clitest.Nodes(t, "../testdata/vendors")))
}

// Whole GPUs, partitions and shares of NVIDIA's own driver are given out until counters
// or capacities are used up, and these are named.
func TestSimulateOnNVIDIAsDriver(t *testing.T) {
	nodes := clitest.Nodes(t, "../testdata/nvidia")
	published := simulated(t, "testdata/nvidia-published.yaml", nodes)
	requireGolden(t, "simulate-nvidia.txt", published)
	// As many fit in whatever order the driver publishes them. Of devices that are alike the
	// first one is named.
	for seed := range uint64(2) {
		got := simulated(t, "testdata/nvidia-published.yaml", clitest.Shuffled(nodes, seed))
		if diff := cmp.Diff(withoutReasons(published), withoutReasons(got)); diff != "" {
			t.Errorf("order %d (-published +shuffled):\n%s", seed, diff)
		}
	}
}

// withoutReasons leaves what fits where.
func withoutReasons(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.HasPrefix(line, "·") })
}

// simulated fills nodes with each of the claims of a file.
func simulated(t *testing.T, claims string, nodes []runtime.Object) string {
	t.Helper()
	o := options{files: []string{claims}, output: "text"}
	in, _, err := o.read(context.Background(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	simulation := simulate.Options{Classes: in.deviceClasses(), Limit: 100}
	var told bytes.Buffer
	client := fake.NewClientset(nodes...)
	groups, err := simulate.FromCluster(context.Background(), client, simulate.NodeFilter{}, &simulation, &told)
	if err != nil {
		t.Fatal(err)
	}
	reports, nowhere, err := fillAll(context.Background(), in.subjects(simulation.Classes), groups, simulation)
	if err != nil || nowhere {
		t.Fatal(err, nowhere)
	}
	var out bytes.Buffer
	if err := simulate.Text(&out, reports); err != nil {
		t.Fatal(err)
	}
	return told.String() + out.String()
}

// What new writes for a driver that nobody knows fits where it publishes the standard
// attributes, in every alignment that compares those; where one is missing, it is named.
func TestNewOnStandardAttributes(t *testing.T) {
	const class = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu.example.com}\n" +
		"spec: {selectors: [{cel: {expression: device.driver == \"gpu.example.com\"}}]}\n"
	for _, tc := range []struct{ node, args, want string }{
		{"standard-0", "--gpus 1 --nics 1 --cpus 4", "fits standard-0\n"},
		{"standard-0", "--gpus 4 --nics 4 --cpus 32", "fits standard-0\n"},
		{"standard-0", "--gpus 2", "fits standard-0\n"},
		{"rootless-0", "--gpus 2", "fits rootless-0\n"},
		{"rootless-0", "--gpus 1 --nics 1 --cpus 4", "resource.kubernetes.io/pcieRoot"},
	} {
		t.Run(tc.node+" "+tc.args, func(t *testing.T) {
			args := append(strings.Fields(tc.args), "--gpu-class", "gpu.example.com", "-f", "-", "-f", "../testdata/vendors/"+tc.node+".yaml")
			manifest, said := told(t, class, args...)
			if !strings.Contains(said, tc.want) {
				t.Errorf("%swant %s", said, tc.want)
			}
			if tc.want == "resource.kubernetes.io/pcieRoot" && !strings.Contains(said, "warning: does not fit "+tc.node) {
				t.Errorf("%swant that it does not fit", said)
			}
			out, err := run(t, manifest, "lint", "-f", "-")
			if err != nil || !strings.Contains(out, " 0 errors, ") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// What new writes for AMD's GPUs fits the slices that are written after its driver's source,
// and lint finds no fault with it there; without NICs of their root, that is said.
func TestNewForAMDsGPUs(t *testing.T) {
	const class = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu.amd.com}\n" +
		"spec: {selectors: [{cel: {expression: 'device.driver == \"gpu.amd.com\" && device.attributes[\"gpu.amd.com\"].type == \"amdgpu\"'}}]}\n"
	const slices = "../testdata/vendors/amd-0.yaml"
	for args, want := range map[string]string{
		"--gpus 1":          "fits amd-0\n",
		"--gpus 3":          "fits amd-0\n",
		"--gpus 4":          "warning: does not fit amd-0: gpu-0, gpu-1, gpu-2 and gpu-3 want the same devices",
		"--gpus 1 --nics 1": "driver dra.net publishes nothing for the node",
	} {
		manifest, said := told(t, class, append(strings.Fields(args), "--gpu-class", "gpu.amd.com", "-f", "-", "-f", slices)...)
		if !strings.Contains(said, want) {
			t.Errorf("%s: %swant %s", args, said, want)
		}
		out, err := run(t, manifest+"---\n"+class, "lint", "-f", "-", "-f", slices)
		if err != nil || !strings.Contains(out, " 0 errors, ") {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}
