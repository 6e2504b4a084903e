// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// metadataPatch is a merge patch (RFC 7386) of labels and annotations, nil where
// nothing changes.
func metadataPatch(c change) ([]byte, error) {
	if len(c.labels)+len(c.annotations) == 0 {
		return nil, nil
	}
	return encode(map[string]any{"metadata": map[string]any{"labels": c.labels, "annotations": c.annotations}})
}

// statusPatch is a strategic merge patch of our conditions, nil where they are as
// wanted. The kubelet's, which stand in the same list, are told apart by their types.
func statusPatch(n *corev1.Node, want []corev1.NodeCondition, now metav1.Time) ([]byte, error) {
	var conditions []any
	for _, c := range want {
		i := slices.IndexFunc(n.Status.Conditions, func(is corev1.NodeCondition) bool { return is.Type == c.Type })
		c.LastTransitionTime, c.LastHeartbeatTime = now, now
		if i >= 0 {
			is := n.Status.Conditions[i]
			if is.Status == c.Status && is.Reason == c.Reason && is.Message == c.Message {
				continue
			}
			if is.Status == c.Status {
				c.LastTransitionTime = is.LastTransitionTime
			}
		}
		conditions = append(conditions, c)
	}
	for _, is := range n.Status.Conditions {
		ours := strings.HasPrefix(string(is.Type), prefix)
		wanted := slices.ContainsFunc(want, func(c corev1.NodeCondition) bool { return c.Type == is.Type })
		if ours && !wanted {
			conditions = append(conditions, map[string]any{"type": is.Type, "$patch": "delete"})
		}
	}
	if conditions == nil {
		return nil, nil
	}
	return encode(map[string]any{"status": map[string]any{"conditions": conditions}})
}

func encode(patch any) ([]byte, error) {
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("write the patch of a node: %w", err)
	}
	return data, nil
}
