// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/kube"
)

// Ready is the type of the one condition.
const Ready = "Ready"

// Reasons of Ready.
const (
	ReasonServing    = "AllNodesServe"
	ReasonNoNodes    = "NoNodes"
	ReasonNotServing = "NodesDoNotServe"
	ReasonNoAgents   = "NoAgents"
)

// objects are what an Installation sums up.
type objects struct {
	// agents is nil where there is no DaemonSet.
	agents  *appsv1.DaemonSet
	pods    []corev1.Pod
	slices  []resourceapi.ResourceSlice
	reports []hosts.HostReport
}

// Bounds of what is listed (the schema's) and of a reason.
const (
	maxNotServing = 32
	maxWhy        = 512
)

// summarise says what objects come to; conditions keep their times where they are as
// before.
func (in *objects) summarise(before hosts.InstallationStatus, version string, now metav1.Time) hosts.InstallationStatus {
	s := hosts.InstallationStatus{Version: version, Conditions: slices.Clone(before.Conditions)}
	serving, why := in.agentPods()
	s.Nodes.Serving = len(serving)
	if in.agents != nil {
		s.Nodes.Wanted = int(in.agents.Status.DesiredNumberScheduled)
	}
	for _, r := range in.reports {
		s.Nodes.Reported++
		if slices.ContainsFunc(r.Report.Findings, func(f hosts.Finding) bool {
			return f.Verdict == hosts.Wrong && f.Severity == hosts.Functional
		}) {
			s.Nodes.HostsWrong++
		}
	}
	s.Drivers = in.driverCounts()
	for _, node := range slices.Sorted(maps.Keys(why)) {
		if len(s.NotServing) == maxNotServing {
			break
		}
		s.NotServing = append(s.NotServing, hosts.NodeNotServing{Node: node, Why: why[node]})
	}
	ready := in.ready(&s)
	ready.LastTransitionTime = now
	meta.SetStatusCondition(&s.Conditions, ready)
	return s
}

// ready is the condition of what was counted.
func (in *objects) ready(s *hosts.InstallationStatus) metav1.Condition {
	c := metav1.Condition{Type: Ready, Status: metav1.ConditionFalse}
	missing := s.Nodes.Wanted - s.Nodes.Serving
	switch {
	case in.agents == nil:
		c.Reason, c.Message = ReasonNoAgents, "there is no DaemonSet plumbline-agent: install the chart again, or look who deleted it"
	case in.agents.Status.ObservedGeneration < in.agents.Generation:
		c.Reason, c.Message = ReasonNotServing, "DaemonSet plumbline-agent has changed, and its nodes are not counted yet"
	case s.Nodes.Wanted == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, ReasonNoNodes, "no node is to have an agent, by the labels that the drivers want"
	case missing > 0:
		c.Reason = ReasonNotServing
		c.Message = fmt.Sprintf("on %d of %d nodes no agent serves", missing, s.Nodes.Wanted)
		if len(s.NotServing) > 0 {
			c.Message += fmt.Sprintf("; %s: %s", s.NotServing[0].Node, s.NotServing[0].Why)
		} else {
			c.Message += "; they have no agent's pod: kubectl describe daemonset plumbline-agent says why"
		}
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, ReasonServing, "the agent of every node that is to have one serves"
	}
	return c
}

// agentPods says on which nodes an agent serves, and why not on others. While an update
// runs a node has two.
func (in *objects) agentPods() (serving map[string]bool, why map[string]string) {
	serving, why = map[string]bool{}, map[string]string{}
	for i := range in.pods {
		p := &in.pods[i]
		switch {
		case p.Spec.NodeName == "":
			why["(none yet)"] = whyNot(p)
		case isReady(p):
			serving[p.Spec.NodeName] = true
		case p.DeletionTimestamp == nil:
			why[p.Spec.NodeName] = whyNot(p)
		}
	}
	for node := range serving {
		delete(why, node)
	}
	return serving, why
}

func isReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// whyNot says what the API server knows of an agent that does not serve; its log knows
// more.
func whyNot(p *corev1.Pod) string {
	for _, s := range p.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			return kube.BoundedText(maxWhy, fmt.Sprintf("pod %s: container %s: %s: %s", p.Name, s.Name, w.Reason, w.Message))
		}
		if t := s.State.Terminated; t != nil {
			return kube.BoundedText(maxWhy, fmt.Sprintf("pod %s: container %s ended with exit code %d: %s", p.Name, s.Name, t.ExitCode, t.Reason))
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return kube.BoundedText(maxWhy, fmt.Sprintf("pod %s is not scheduled: %s", p.Name, c.Message))
		}
	}
	return fmt.Sprintf("pod %s runs and is not ready: plumbline-agent healthz in it says what it waits for", p.Name)
}

// driverCounts counts what drivers publish.
func (in *objects) driverCounts() []hosts.DriverCounts {
	counts, nodes := map[string]*hosts.DriverCounts{}, map[string]map[string]bool{}
	for i := range in.slices {
		spec := &in.slices[i].Spec
		// GPUs are somebody else's more often than ours; only plain counts are wanted of
		// either.
		if !drivers[spec.Driver] || spec.NodeName == nil {
			continue
		}
		c := counts[spec.Driver]
		if c == nil {
			c = &hosts.DriverCounts{Name: spec.Driver}
			counts[spec.Driver], nodes[spec.Driver] = c, map[string]bool{}
		}
		nodes[spec.Driver][*spec.NodeName] = true
		c.Nodes = len(nodes[spec.Driver])
		c.Devices += len(spec.Devices)
		for _, d := range spec.Devices {
			if len(d.Taints) > 0 {
				c.Tainted++
			}
		}
	}
	var all []hosts.DriverCounts
	for _, c := range counts {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b hosts.DriverCounts) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
