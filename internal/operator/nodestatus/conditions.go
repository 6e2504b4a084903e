// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
)

// prefix is that of our condition types and annotations.
const prefix = "plumbline.dev/"

// Types of conditions. They are True where all is well, as Ready is.
const (
	// HostReady: nothing on the host keeps pods with GPUs and NICs from working.
	HostReady corev1.NodeConditionType = prefix + "HostReady"
	// RDMAReady: RDMA works; there is none on hosts without RDMA.
	RDMAReady corev1.NodeConditionType = prefix + "RDMAReady"
	// GPUDirectReady: NICs reach GPUs' memory; there is none on hosts without both.
	GPUDirectReady corev1.NodeConditionType = prefix + "GPUDirectReady"
)

// conditionTypes are all, in the order in which they are written.
var conditionTypes = []corev1.NodeConditionType{HostReady, RDMAReady, GPUDirectReady}

// Reasons of conditions.
const (
	ReasonPassed  = "ChecksPassed"
	ReasonFailed  = "ChecksFailed"
	ReasonUnknown = "ChecksUnknown"
)

// dmaBuf is the check of the way from NICs to GPUs' memory.
const dmaBuf = "dma-buf"

// concerns says whether a check counts for a condition.
func concerns(t corev1.NodeConditionType, check string) bool {
	switch t {
	case RDMAReady:
		return strings.HasPrefix(check, "rdma-") || check == "memlock" || check == "gid"
	case GPUDirectReady:
		return check == dmaBuf || strings.HasPrefix(check, "gpu-")
	}
	return true
}

// applies says whether a host has what a condition is about: a check about nothing
// says nothing.
func applies(t corev1.NodeConditionType, checks []string) bool {
	switch t {
	case RDMAReady:
		return slices.Contains(checks, "rdma-devices")
	case GPUDirectReady:
		return slices.Contains(checks, dmaBuf)
	}
	return true
}

// maxMessage bounds a condition's message: a Node is read by everybody.
const maxMessage = 512

// conditionsOf are those that a report comes to, without times.
func conditionsOf(r *hosts.Report) []corev1.NodeCondition {
	var all []corev1.NodeCondition
	for _, t := range conditionTypes {
		if !applies(t, r.Checks) {
			continue
		}
		c := corev1.NodeCondition{Type: t, Status: corev1.ConditionTrue, Reason: ReasonPassed, Message: "nothing is found that keeps it from working"}
		wrong, unknown := about(r, t, hosts.Wrong), about(r, t, hosts.Unknown)
		switch {
		case len(wrong) > 0:
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, ReasonFailed, message(wrong)
		case len(unknown) > 0:
			c.Status, c.Reason, c.Message = corev1.ConditionUnknown, ReasonUnknown, message(unknown)
		}
		all = append(all, c)
	}
	return all
}

// about lists the findings of a verdict that a condition is about: of what does not
// work, not of what is slow.
func about(r *hosts.Report, t corev1.NodeConditionType, v hosts.Verdict) []hosts.Finding {
	var all []hosts.Finding
	for _, f := range r.Findings {
		if f.Severity == hosts.Functional && f.Verdict == v && concerns(t, f.Check) {
			all = append(all, f)
		}
	}
	return all
}

// message says the first finding and how many more there are; the HostReport has them
// all.
func message(findings []hosts.Finding) string {
	first := findings[0]
	text := first.Check + ": "
	if first.Subject != "" {
		text += first.Subject + ": "
	}
	text += first.Found + " (" + first.Source + ")"
	if first.Want != "" {
		text += "; want " + first.Want
	}
	if more := len(findings) - 1; more > 0 {
		text += fmt.Sprintf(" (and %s more)", plural.Count(more, "finding", "findings"))
	}
	return kube.BoundedText(maxMessage, printable.Text(text))
}
