// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/nodeslices"
	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/scenario"
)

// azure is the machine that the training example is written for.
const azure = "azure-nd96isr-h100-v5"

// TestSimulatedNodesOfNVIDIA has NVIDIA's driver publish the GPUs of simulated nodes, and
// the training example's templates allocated there, as the demo does. How NVIDIA's slices
// differ from those that plumbline would write is recorded; docs/gpu.md says it in words.
func TestSimulatedNodesOfNVIDIA(t *testing.T) {
	driver := nvidiaDriver(t)
	admin := serving(t)
	classes := newApplier(t, admin)
	for _, class := range objectsOf(t, []byte(nvidiaClasses)) {
		if err := classes.apply(t.Context(), class, "", false); err != nil {
			t.Fatal(err)
		}
	}
	client := kubernetes.NewForConfigOrDie(admin)
	kubeconfig, logs := adminKubeconfig(t, admin), t.TempDir()
	simulator := cluster.Simulator{
		Client: client, NVIDIA: &driver, Kubeconfig: kubeconfig,
		Log: func(node string) string { return filepath.Join(logs, node) },
	}
	file, err := machine.Open(azure)
	if err != nil {
		t.Fatal(err)
	}
	names := cluster.Simulated{Machine: azure, Count: 2}.NodeNames(file.Name)
	// The second time is another "plumblab up" beside what is there.
	for range 2 {
		for _, name := range names {
			if err := simulator.Add(t.Context(), file, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	list, err := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{
		FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + slicecodec.DriverGPU + "," + resourceapi.ResourceSliceSelectorNodeName + "=" + names[0],
	})
	if err != nil {
		t.Fatal(err)
	}
	ours, _, err := nodeslices.OfFile(t.Context(), file, nodeslices.Options{Node: names[0], Simulated: true})
	if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, "testdata/nvidia-and-plumbline.txt", sliceDifferences(list.Items, ours))

	var said strings.Builder
	demo := scenario.Demo{
		Kubectl:  scenario.Kubectl{Command: []string{hyperkube(t), "kubectl", "--cache-dir=" + t.TempDir()}, Kubeconfig: kubeconfig},
		Examples: "../../examples", Out: &said, NVIDIA: true,
	}
	ok, err := demo.Azure(t.Context())
	if err != nil || !ok {
		t.Errorf("%v, %v:\n%s", ok, err, said.String())
	}
}

// sliceDifferences lists by field what two publishers say of the same GPUs, with the number
// of GPUs of which they do.
func sliceDifferences(theirs, ours []resourceapi.ResourceSlice) string {
	left, right := fieldsByAddress(theirs), fieldsByAddress(ours)
	counts := map[string]int{}
	for address := range left {
		for _, field := range slices.Sorted(maps.Keys(union(left[address], right[address]))) {
			one, other := cmp.Or(left[address][field], "nothing"), cmp.Or(right[address][field], "nothing")
			if one == other {
				counts[field+": the same"]++
				continue
			}
			if field == "uuid" {
				one, other = "another", "another"
			}
			counts[fmt.Sprintf("%s: NVIDIA %s, plumbline %s", field, one, other)]++
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d GPUs of %s by NVIDIA, %d by plumbline\n", len(left), azure, len(right))
	for _, line := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&text, "%s (%d)\n", line, counts[line])
	}
	return text.String()
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// fieldsByAddress are a driver's devices by PCI address, with each field as text.
func fieldsByAddress(all []resourceapi.ResourceSlice) map[string]map[string]string {
	devices := map[string]map[string]string{}
	for _, s := range all {
		if s.Spec.Driver != slicecodec.DriverGPU {
			continue
		}
		for _, d := range s.Spec.Devices {
			fields := map[string]string{"name": d.Name}
			for name, value := range d.Attributes {
				fields[string(name)] = text(value)
			}
			for name, value := range d.Capacity {
				fields["capacity "+string(name)] = text(value)
			}
			devices[*d.Attributes[slicecodec.AttrPCIBusID].StringValue] = fields
		}
	}
	return devices
}

// text is a value in one line.
func text(value any) string {
	out, err := yaml.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", ", ")
}
