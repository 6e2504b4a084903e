// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/verify"
)

// tenant is a cluster as it answers whoever has the namespace of a pod, and nothing else.
// Each device of the pod's two claims has such conditions.
func tenant(devices ...[]metav1.Condition) *fake.Clientset {
	name := "gpus-x7k2p"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train", UID: "u"},
		Spec: corev1.PodSpec{NodeName: "n1", ResourceClaims: []corev1.PodResourceClaim{
			{Name: "nics", ResourceClaimName: new("nics")}, {Name: "gpus", ResourceClaimTemplateName: new("gpus")},
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "gpus", ResourceClaimName: &name}}},
	}
	claims := []*resourceapi.ResourceClaim{{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "nics"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}}
	for i, conditions := range devices {
		status := &claims[i%2].Status
		status.Devices = append(status.Devices, resourceapi.AllocatedDeviceStatus{Driver: "dra.net", Pool: "n1", Device: "d", Conditions: conditions})
	}
	client := fake.NewClientset(pod, claims[0], claims[1])
	client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetNamespace() == "team" {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no rights in "+a.GetNamespace()))
	})
	return client
}

func saying(asClaimed, aligned metav1.ConditionStatus) []metav1.Condition {
	return []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Attached"},
		{Type: "AsClaimed", Status: asClaimed, Reason: "R" + string(asClaimed), Message: "as the kernel says"}, {Type: "Aligned", Status: aligned, Reason: "A" + string(aligned)},
	}
}

func TestTenants(t *testing.T) {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	for _, tc := range []struct {
		name    string
		devices [][]metav1.Condition
		verdict string
		reason  string
	}{
		{"all is well", [][]metav1.Condition{saying(yes, yes), saying(yes, yes)}, "Aligned", "RTrue"},
		{"it could be nearer", [][]metav1.Condition{saying(yes, yes), saying(yes, no)}, "AsClaimed", "RTrue"},
		{"one is not as claimed", [][]metav1.Condition{saying(yes, yes), saying(unknown, yes), saying(no, no)}, "Misaligned", "RFalse"},
		{"one is not known", [][]metav1.Condition{saying(yes, yes), saying(unknown, unknown)}, "Unknown", "RUnknown"},
		{"a GPU driver writes none", [][]metav1.Condition{saying(yes, yes), nil}, "Aligned", "RTrue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := tenant(tc.devices...)
			report, err := look(t.Context(), client, orConditions{agents{cmdutil.Agents{Client: client, Namespace: "plumbline-system"}}, client}, selection{namespace: "team"})
			if err != nil || len(report.Pods) != 1 || report.Pods[0].Verdict != tc.verdict || report.Pods[0].Reason != tc.reason || report.Pods[0].Node != "n1" {
				t.Fatalf("%+v, %v; want %s (%s)", report, err, tc.verdict, tc.reason)
			}
			var out bytes.Buffer
			if err := writeText(&out, report); err != nil || !strings.Contains(out.String(), "team/train on n1: "+tc.verdict) || !strings.Contains(out.String(), "which the node's agent wrote") {
				t.Errorf("%v:\n%s", err, out.String())
			}
		})
	}
}

// Without conditions, or without the right to read claims, it says what was refused.
func TestTenantsWithoutConditions(t *testing.T) {
	client := tenant()
	s := orConditions{agents{cmdutil.Agents{Client: client, Namespace: "plumbline-system"}}, client}
	report, err := look(t.Context(), client, s, selection{namespace: "team"})
	if err != nil || report.Pods[0].Verdict != "Unknown" || !strings.Contains(report.Pods[0].Message, "no rights in plumbline-system") {
		t.Errorf("%+v, %v", report.Pods, err)
	}
	client.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "nics", errors.New("nor claims"))
	})
	report, err = look(t.Context(), client, s, selection{namespace: "team"})
	if err != nil || report.Pods[0].Verdict != "Unknown" || !strings.Contains(report.Pods[0].Message, "nor claims") {
		t.Errorf("%+v, %v", report.Pods, err)
	}
	fails := orConditions{failing{errors.New("the node is away")}, client}
	report, err = look(t.Context(), client, fails, selection{namespace: "team"})
	if err != nil || !strings.Contains(report.Pods[0].Message, "the node is away") {
		t.Errorf("%+v, %v", report.Pods, err)
	}
}

// failing cannot be asked for another reason.
type failing struct{ why error }

func (f failing) look(context.Context, string, string, []corev1.Pod) (*verify.Report, error) {
	return nil, f.why
}
