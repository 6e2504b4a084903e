// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// TestNoFalseAlarm: on every shipped machine, pods that hold what they claim
// come and go, several at once, and no look ever finds anything wrong.
func TestNoFalseAlarm(t *testing.T) {
	for _, name := range []string{"a3-ultragpu-8g", "azure-nd96isr-h100-v5", "aws-p4d.24xlarge", "egx-t4-cx5"} {
		t.Run(name, func(t *testing.T) {
			n := verifytest.NewNode(t, name)
			r := n.Reader(t)
			random := rand.New(rand.NewPCG(7, 7))
			for round := range 5 {
				pods, expected := crowd(t, n, random, round)
				for range 2 {
					for _, result := range verify.Check(t.Context(), n.Machine, r, expected, true) {
						if result.Status != evaluate.True {
							t.Fatalf("round %d, pod %s: %s", round, result.Expected.Name, explain(result))
						}
					}
					for _, p := range pods {
						p.Run()
						n.Tick(t, p)
					}
				}
				for _, p := range pods {
					n.Remove(t, p)
				}
			}
		})
	}
}

// crowd starts pods that hold GPUs, NICs and CPUs of the node, none twice.
func crowd(t *testing.T, n *verifytest.Node, random *rand.Rand, round int) ([]*verifytest.Pod, []expect.Pod) {
	gpus, nics := random.Perm(len(n.Machine.GPUs)), nicsWithAddress(n, random)
	free := map[int]cpuset.CPUSet{}
	for _, node := range n.Machine.NUMANodes {
		free[node.ID] = node.CPUs
	}
	take := func(list *[]int, most int) []int {
		k := min(random.IntN(most+1), len(*list))
		taken := slices.Clone((*list)[:k])
		*list = (*list)[k:]
		return taken
	}
	var pods []*verifytest.Pod
	var expected []expect.Pod
	for i := range 1 + random.IntN(4) {
		node := n.Machine.NUMANodes[random.IntN(len(n.Machine.NUMANodes))].ID
		list := free[node].List()
		k := random.IntN(min(8, len(list)) + 1)
		cpus := cpuset.New(list[:k]...)
		free[node] = free[node].Difference(cpus)
		p := n.NewPod(fmt.Sprintf("pod-%d-%d", round, i))
		allocated := n.Give(p, verifytest.Ours(), take(&gpus, 3), take(&nics, 3), cpus)
		n.Write(t, p)
		pods, expected = append(pods, p), append(expected, allocated.Expect())
	}
	return pods, expected
}

func nicsWithAddress(n *verifytest.Node, random *rand.Rand) []int {
	var list []int
	for _, i := range random.Perm(len(n.Machine.NICs)) {
		if n.Machine.NICs[i].PCI != nil && n.Machine.NICs[i].Port == nil {
			list = append(list, i)
		}
	}
	return list
}
