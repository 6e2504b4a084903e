// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import corev1 "k8s.io/api/core/v1"

// AgentLabels select the agents' pods, those that only observe among them.
const AgentLabels = "app.kubernetes.io/name=plumbline,app.kubernetes.io/component in (agent, observer)"

// AgentNamespace is where agents run unless a flag says otherwise.
const AgentNamespace = "plumbline-system"

// IsReady says whether a pod is Ready.
func IsReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
