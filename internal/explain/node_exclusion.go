// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// whyExcluded says why the pod cannot run on a node for other reasons than devices of
// claims: its own selectors, taints, and device plugins; "" where it can.
func (s *Subject) whyExcluded(c *snapshot.Cluster, node *corev1.Node) string {
	for _, claim := range s.Allocated {
		selector := claim.Status.Allocation.NodeSelector
		if selector == nil {
			continue
		}
		if matches, err := allocation.NodeMatches(allocation.Gates{}, node, "", false, selector); err == nil && !matches {
			return fmt.Sprintf("claim %s/%s is allocated elsewhere", claim.Namespace, claim.Name)
		}
	}
	if s.Pod != nil {
		if why := podExclusion(s.Pod, node); why != "" {
			return why
		}
	}
	return s.lacksExtended(c, node)
}

// podExclusion says why a pod's own spec keeps it from a node. Of a node that is
// known by name only nothing is known.
func podExclusion(p *corev1.Pod, node *corev1.Node) string {
	if name := p.Spec.NodeName; name != "" && name != node.Name {
		return "the pod is bound to node " + name
	}
	if node.Spec.Unschedulable {
		return "the node is cordoned"
	}
	if len(node.Labels) > 0 {
		if !labels.SelectorFromSet(p.Spec.NodeSelector).Matches(labels.Set(node.Labels)) {
			return "the pod's nodeSelector does not match"
		}
		if matches, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(node); err == nil && !matches {
			return "the pod's node affinity does not match"
		}
	}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated(p.Spec.Tolerations, t) {
			return "the pod does not tolerate the node's taint " + t.ToString()
		}
	}
	return ""
}

// tolerated is the rule of Toleration.ToleratesTaint (k8s.io/api/core/v1) for
// the operators of all versions.
func tolerated(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			return false
		}
		return t.Operator == corev1.TolerationOpExists || (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Value == taint.Value
	})
}
