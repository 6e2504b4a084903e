// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package density

import (
	"context"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

func TestAgentUsage(t *testing.T) {
	r := run{harness.Cluster{Shell: func(context.Context, string, ...string) (string, error) { return "42 250 100 17\n", nil }}}
	got, err := r.agentUsage(t.Context())
	if want := (agentUsage{pid: 42, seconds: 2.5, verifications: 17}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	r.Shell = func(context.Context, string, ...string) (string, error) { return "42 250 100 \n", nil }
	if got, err := r.agentUsage(t.Context()); err == nil {
		t.Errorf("an agent that reports no verifications: %+v", got)
	}
}

func TestShare(t *testing.T) {
	if got := (Cost{CPUSeconds: 0.06}).Share(10 * time.Second); got < 0.59 || got > 0.61 {
		t.Errorf("60 ms every 10 s are %.2f %% of a processor, want 0.6", got)
	}
}

func TestCountAsClaimed(t *testing.T) {
	claims := make([]resourceapi.ResourceClaim, 3)
	for i, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionUnknown} {
		claims[i].Status.Devices = []resourceapi.AllocatedDeviceStatus{{Conditions: []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionTrue}, {Type: "AsClaimed", Status: status}, {Type: "Aligned", Status: metav1.ConditionTrue},
		}}}
	}
	if got := countAsClaimed(claims); got != 1 {
		t.Errorf("%d, want 1", got)
	}
}
