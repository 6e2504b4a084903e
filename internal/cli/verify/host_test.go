// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// On the node itself no agent is needed.
func TestHost(t *testing.T) {
	n := verifytest.NewWholeNode(t, "a3-ultragpu-8g")
	p := n.NewPod("train-0")
	allocated := n.Give(p, verifytest.Ours(), []int{0}, []int{0}, cpuset.New(4, 5))
	n.Write(t, p)
	client := fake.NewClientset(allocated.Pod, allocated.Claim, &allocated.Slices[0], &allocated.Slices[1], &allocated.Slices[2])
	for node, want := range map[string]string{"n1": "Aligned", "n2": "Unknown"} {
		h := host{client: client, node: node, options: n.Options(t), sample: time.Millisecond}
		report, err := look(t.Context(), client, h, selection{namespace: "default"})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Pods) != 1 || report.Pods[0].Verdict != want {
			var out bytes.Buffer
			_ = writeText(&out, report)
			t.Errorf("this host is %s: want %s, got\n%s", node, want, out.String())
		}
	}
}
