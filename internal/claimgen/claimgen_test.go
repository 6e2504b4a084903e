// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/claimgen"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/nodeslices"
)

const node = "n1"

// cluster is one node with the hardware of a shipped machine.
func cluster(t *testing.T, name string) *allocation.Cluster {
	t.Helper()
	file, err := machine.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	published, problems, err := nodeslices.OfFile(context.Background(), file, nodeslices.Options{Node: node})
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	slices := make([]*resourceapi.ResourceSlice, len(published))
	for i := range published {
		slices[i] = &published[i]
	}
	classes := map[string]*resourceapi.DeviceClass{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(deploy.DeviceClasses()), 4096)
	for {
		var class resourceapi.DeviceClass
		if err := decoder.Decode(&class); err != nil {
			break
		}
		if class.Name != "" {
			classes[class.Name] = &class
		}
	}
	return allocation.New(classes, slices, nil)
}

func fill(t *testing.T, c *allocation.Cluster, o claimgen.Options) [][]*resourceapi.ResourceClaim {
	t.Helper()
	spec, err := claimgen.Spec(o)
	if err != nil {
		t.Fatal(err)
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Spec: *spec}
	pods, _, err := c.Fill(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, 100, claim)
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

// The scheduler's own allocator gives as many claims as the machine has room
// for, each aligned as it was asked for.
func TestAllocated(t *testing.T) {
	const a3, azure, p4d, egx, tpu = "a3-ultragpu-8g", "azure-nd96isr-h100-v5", "aws-p4d.24xlarge", "egx-t4-cx5", "gcp-ct6e-standard-4t"
	pair := claimgen.Options{GPUs: 1, NICs: 1, CPUs: 4, Align: claimgen.PCIe}
	four := claimgen.Options{GPUs: 4, NICs: 4, CPUs: 16, Align: claimgen.PCIe}
	with := func(o claimgen.Options, change func(*claimgen.Options)) claimgen.Options {
		change(&o)
		return o
	}
	onNUMA := func(o *claimgen.Options) { o.Align = claimgen.NUMA }
	orNUMA := func(o *claimgen.Options) { o.Fallback = claimgen.NUMA }
	orAny := func(o *claimgen.Options) { o.Fallback = claimgen.Any }
	for _, tc := range []struct {
		name, machine string
		o             claimgen.Options
		want          int
	}{
		{"pairs", a3, pair, 8},
		{"fours", a3, four, 2},
		{"fours of one NUMA node", a3, with(four, onNUMA), 2},
		{"the whole machine", a3, claimgen.Options{GPUs: 8, NICs: 8, CPUs: 32, NUMANodes: 2, Align: claimgen.PCIe}, 1},
		{"the whole machine on one NUMA node", a3, claimgen.Options{GPUs: 8, NICs: 8, CPUs: 32, Align: claimgen.PCIe}, 0},
		{"the whole machine without CPUs", a3, claimgen.Options{GPUs: 8, NICs: 8, Align: claimgen.PCIe}, 1},
		{"a product", a3, with(pair, func(o *claimgen.Options) { o.GPUProduct = "NVIDIA H200" }), 8},
		{"another product", a3, with(pair, func(o *claimgen.Options) { o.GPUProduct = "NVIDIA H100" }), 0},
		{"named interfaces", a3, with(four, func(o *claimgen.Options) { o.InterfacePrefix, o.MTU = "rdma", 8896 }), 2},
		{"no root is shared", azure, pair, 0},
		{"no root is shared, NUMA will do", azure, with(pair, orNUMA), 8},
		{"fours where NUMA will do", azure, with(four, orNUMA), 2},
		{"fours by NUMA", azure, with(four, onNUMA), 2},
		{"two GPUs a NIC", p4d, claimgen.Options{GPUs: 4, NICs: 2, Align: claimgen.PCIe}, 2},
		{"two GPUs a NIC, with CPUs", p4d, claimgen.Options{GPUs: 8, NICs: 4, CPUs: 48, NUMANodes: 2, Align: claimgen.PCIe}, 1},
		{"one GPU a NIC", p4d, claimgen.Options{GPUs: 1, NICs: 1, Align: claimgen.PCIe}, 4},
		{"NICs without RDMA", p4d, claimgen.Options{NICs: 1, WithoutRDMA: true, Align: claimgen.PCIe}, 7},
		{"one of four GPUs has a NIC on its NUMA node", egx, with(pair, orNUMA), 1},
		{"the others take theirs from afar", egx, with(pair, orAny), 4},
		{"a group, NICs from anywhere", egx, claimgen.Options{GPUs: 3, NICs: 3, Align: claimgen.NUMA, Fallback: claimgen.Any}, 1},
		{"NICs and CPUs", tpu, claimgen.Options{NICs: 3, CPUs: 30, Align: claimgen.NUMA, WithoutRDMA: true}, 1},
		{"CPUs", tpu, claimgen.Options{CPUs: 30, Align: claimgen.PCIe}, 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if pods := fill(t, cluster(t, tc.machine), tc.o); len(pods) != tc.want {
				t.Errorf("%d claims fit %s, want %d", len(pods), tc.machine, tc.want)
			}
		})
	}
}

// What is near is taken first: on a machine where each GPU has a NIC of its
// root, a claim with a fallback takes none from afar.
func TestNearFirst(t *testing.T) {
	for _, tc := range []struct {
		machine string
		o       claimgen.Options
		want    int
	}{
		{"a3-ultragpu-8g", claimgen.Options{GPUs: 2, NICs: 2, Align: claimgen.PCIe, Fallback: claimgen.NUMA}, 4},
		// Two GPUs share a NIC's root here: the second claim has to pass over one.
		{"aws-p4d.24xlarge", claimgen.Options{GPUs: 1, NICs: 1, Align: claimgen.PCIe, Fallback: claimgen.NUMA}, 4},
		{"aws-p4d.24xlarge", claimgen.Options{GPUs: 1, NICs: 1, Align: claimgen.PCIe, Fallback: claimgen.Any}, 4},
		{"aws-p4d.24xlarge", claimgen.Options{GPUs: 2, NICs: 1, Align: claimgen.PCIe, Fallback: claimgen.NUMA}, 4},
	} {
		pods := fill(t, cluster(t, tc.machine), tc.o)
		if len(pods) != tc.want {
			t.Errorf("%d claims %+v fit %s, want %d", len(pods), tc.o, tc.machine, tc.want)
		}
		for i, pod := range pods {
			for _, r := range pod[0].Status.Allocation.Devices.Results {
				if strings.HasSuffix(r.Request, "/far") {
					t.Errorf("claim %d on %s has %s for %s", i, tc.machine, r.Device, r.Request)
				}
			}
		}
	}
}

// Every combination of numbers is a claim that the API takes, or an error that
// says what would be right; a claim that is too big is split into ones that are
// not.
func TestLimits(t *testing.T) {
	for _, align := range []string{claimgen.PCIe, claimgen.NUMA} {
		for gpus := range 20 {
			for nics := range 36 {
				for _, parts := range []int{1, 2, 4} {
					o := claimgen.Options{GPUs: gpus, NICs: nics, CPUs: 8, NUMANodes: parts, Align: align}
					spec, err := claimgen.Spec(o)
					var limit *claimgen.LimitError
					switch {
					case errors.As(err, &limit):
						if !strings.Contains(limit.Instruction, "split it into") && gpus%2+nics%2 == 0 {
							t.Errorf("%+v: %v", o, err)
						}
					case err != nil:
					case len(spec.Devices.Requests) > 32 || len(spec.Devices.Constraints) > 32 || gpus+nics+parts > 32:
						t.Errorf("%+v: %d requests, %d constraints", o, len(spec.Devices.Requests), len(spec.Devices.Constraints))
					}
				}
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for want, o := range map[string]claimgen.Options{
		"the claim is for nothing: want GPUs, NICs or CPUs": {Align: claimgen.PCIe},
		`align "root": want pcie or numa`:                   {GPUs: 1, Align: "root"},
		"align by socket: no driver says on which socket a GPU or a NIC is; where a socket is one NUMA node, numa is the same": {GPUs: 1, Align: "socket"},
		`fallback "far": want numa or any`:                                                                            {GPUs: 1, NICs: 1, Align: claimgen.PCIe, Fallback: "far"},
		"fallback numa is what the claim wants in the first place: want any":                                          {GPUs: 1, NICs: 1, Align: claimgen.NUMA, Fallback: claimgen.NUMA},
		"a fallback is for NICs away from their GPUs: want GPUs and NICs with it":                                     {GPUs: 1, Align: claimgen.PCIe, Fallback: claimgen.Any},
		"3 GPUs, 2 NICs and 0 CPUs on 2 NUMA nodes: want numbers that it divides":                                     {GPUs: 3, NICs: 2, NUMANodes: 2, Align: claimgen.NUMA},
		"an interface's name and MTU are for NICs: want NICs with them":                                               {GPUs: 1, MTU: 1500, Align: claimgen.PCIe},
		"a number is negative: want 0 or more":                                                                        {GPUs: -1, Align: claimgen.PCIe},
		`interface prefix "longer-than-that": want 12 characters at most, an interface's name has 15`:                 {NICs: 1, InterfacePrefix: "longer-than-that", Align: claimgen.PCIe},
		"3 GPUs and 2 NICs make no equal shares of PCIe roots: want one number to divide the other, or align by numa": {GPUs: 3, NICs: 2, Align: claimgen.PCIe},
		"the claim has 40 results (devices), and the API takes 32: split it into 2 claims of --gpus 4 --nics 16, and let the pod have all of them; devices are aligned within a claim, not between claims": {GPUs: 8, NICs: 32, Align: claimgen.PCIe},
	} {
		if _, err := claimgen.Spec(o); err == nil || err.Error() != want {
			t.Errorf("%+v:\n%v, want\n%s", o, err, want)
		}
	}
}

// Requests that belong together stand together.
func TestInterleaved(t *testing.T) {
	spec, err := claimgen.Spec(claimgen.Options{GPUs: 4, NICs: 4, CPUs: 16, NUMANodes: 2, Align: claimgen.PCIe})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range spec.Devices.Requests {
		names = append(names, r.Name)
	}
	if got, want := fmt.Sprint(names), "[gpu-0 nic-0 gpu-1 nic-1 cpu-0 gpu-2 nic-2 gpu-3 nic-3 cpu-1]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
