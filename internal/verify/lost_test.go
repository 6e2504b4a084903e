// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// A GPU falls off the bus while a pod holds it: its function is in /sys no longer. That
// is no misalignment, and nobody can say any more that the pod is as it claims. The pod with
// another GPU still is.
func TestGPUOffTheBus(t *testing.T) {
	for name, driverKnows := range map[string]bool{"the kernel's driver knows it": true, "the kernel's driver forgot it": false} {
		t.Run(name, func(t *testing.T) {
			n, _, held := tutorial(t)
			other := n.NewPod("other")
			others := n.Give(other, verifytest.Ours(), []int{4}, nil, cpuset.CPUSet{})
			n.Write(t, other)
			lost := n.Machine.GPUs[0].PCI
			left := without(t, n.Machine, lost)
			if !driverKnows {
				if err := os.RemoveAll(n.Path("proc/driver/nvidia/gpus/" + lost.String())); err != nil {
					t.Fatal(err)
				}
			}
			got := verify.Check(t.Context(), left, n.Reader(t), []expect.Pod{held.Expect(), others.Expect()}, false)
			if got[0].Status != evaluate.Unknown || strings.Contains(explain(got[0]), string(evaluate.DeviceNotClaimed)) {
				t.Errorf("who had the GPU: want Unknown\n%s", explain(got[0]))
			}
			if driverKnows && !strings.Contains(explain(got[0]), "at 0000:8f:00.0, which the node does not show") {
				t.Errorf("the GPU that is gone is not named:\n%s", explain(got[0]))
			}
			if got[1].Status != evaluate.True {
				t.Errorf("who has another GPU: want True\n%s", explain(got[1]))
			}
		})
	}
}

// without is a machine as it is scanned once a GPU is off the bus.
func without(t *testing.T, m *model.Machine, lost model.PCIAddress) *model.Machine {
	t.Helper()
	parts := model.Machine{
		Name: m.Name, Architecture: m.Architecture, NUMANodes: slices.Clone(m.NUMANodes), CPUs: slices.Clone(m.CPUs), Roots: slices.Clone(m.Roots), NICs: slices.Clone(m.NICs),
		Functions: slices.DeleteFunc(slices.Clone(m.Functions), func(f model.PCIFunction) bool { return f.Address == lost }),
		GPUs:      slices.DeleteFunc(slices.Clone(m.GPUs), func(g model.GPU) bool { return g.PCI == lost }),
	}
	left, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return left
}
