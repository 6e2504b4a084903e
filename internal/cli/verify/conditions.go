// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
)

// orConditions asks the agents, or where that is forbidden, as to whoever has one namespace
// only, reads what they wrote into the claims of the pods.
type orConditions struct {
	agents source
	client kubernetes.Interface
}

// Types of conditions of a claim's devices (internal/agent/status).
const (
	conditionAsClaimed = "AsClaimed"
	conditionAligned   = "Aligned"
)

func (s orConditions) look(ctx context.Context, node, namespace string, pods []corev1.Pod) (*verify.Report, error) {
	report, refused := s.agents.look(ctx, node, namespace, pods)
	if !apierrors.IsForbidden(refused) {
		return report, refused
	}
	report = &verify.Report{}
	for i := range pods {
		said, err := s.said(ctx, &pods[i])
		if err != nil {
			return nil, fmt.Errorf("%w; and %w", refused, err)
		}
		if said != nil {
			said.Node = node
			report.Pods = append(report.Pods, *said)
		}
	}
	if len(report.Pods) == 0 {
		return nil, refused
	}
	return report, nil
}

// said is what the conditions of a pod's claims come to; nil without any.
func (s orConditions) said(ctx context.Context, pod *corev1.Pod) (*verify.Pod, error) {
	out := &verify.Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
		Components: []verify.Component{}, Pairs: []verify.Pair{}, Findings: []verify.Finding{},
	}
	for _, name := range claimNames(pod) {
		claim, err := s.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read claim %s/%s: %w", pod.Namespace, name, err)
		}
		for i := range claim.Status.Devices {
			out.AsClaimed = worse(out.AsClaimed, claim.Status.Devices[i].Conditions, conditionAsClaimed)
			out.Aligned = worse(out.Aligned, claim.Status.Devices[i].Conditions, conditionAligned)
		}
		out.Findings = append(out.Findings, noteOf(claim.Name, claim.Status.Devices)...)
	}
	if out.AsClaimed.Status == "" || out.Aligned.Status == "" {
		return nil, nil
	}
	out.Verdict, out.Reason, out.Message = word(out.AsClaimed.Status, out.Aligned.Status), out.AsClaimed.Reason, out.AsClaimed.Message
	return out, nil
}

// claimNames are the claims that a pod has, by its own word.
func claimNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			names = append(names, *name)
		}
	}
	if e := pod.Status.ExtendedResourceClaimStatus; e != nil {
		names = append(names, e.ResourceClaimName)
	}
	return names
}

// worse is the worse of an answer and what a condition of that type says.
func worse(a verify.Answer, conditions []metav1.Condition, kind string) verify.Answer {
	rank := map[string]int{string(metav1.ConditionTrue): 1, string(metav1.ConditionUnknown): 2, string(metav1.ConditionFalse): 3}
	for _, c := range conditions {
		if c.Type == kind && rank[string(c.Status)] > rank[a.Status] {
			a = verify.Answer{Status: string(c.Status), Reason: c.Reason, Message: c.Message}
		}
	}
	return a
}

// word sums both answers up.
func word(asClaimed, aligned string) string {
	switch asClaimed {
	case string(evaluate.False):
		return string(evaluate.WordMisaligned)
	case string(evaluate.Unknown):
		return string(evaluate.WordUnknown)
	}
	if aligned == string(evaluate.True) {
		return string(evaluate.WordAligned)
	}
	return string(evaluate.WordAsClaimed)
}

// noteOf says whose word it is, and since when it is so.
func noteOf(claim string, devices []resourceapi.AllocatedDeviceStatus) []verify.Finding {
	for i := range devices {
		for _, c := range devices[i].Conditions {
			if c.Type == conditionAsClaimed {
				return []verify.Finding{{
					State: string(evaluate.StateNote), Claim: claim, What: "claim " + claim,
					Why: "its condition, which the node's agent wrote, is so since " + c.LastTransitionTime.UTC().Format(time.RFC3339) + ": " + c.Message,
				}}
			}
		}
	}
	return nil
}
