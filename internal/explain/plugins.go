// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// extendedResources are how many of each extended resource a pod asks for, all its
// containers together as the scheduler counts them.
func extendedResources(p *corev1.Pod) corev1.ResourceList {
	p = p.DeepCopy()
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			containers[i].Resources.Requests = asks(&containers[i])
		}
	}
	all := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
	maps.DeleteFunc(all, func(name corev1.ResourceName, n resource.Quantity) bool {
		return !isExtended(string(name)) || n.IsZero()
	})
	return all
}

// isExtended is the rule of IsExtendedResourceName (pkg/apis/core/v1/helper).
func isExtended(name string) bool {
	if strings.HasPrefix(name, resourceapi.ResourceDeviceClassPrefix) {
		return true
	}
	return strings.Contains(name, "/") && !strings.Contains(name, corev1.ResourceDefaultNamespacePrefix) && !strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix)
}

// byPlugin says whether a node's extended resource is its device plugin's affair:
// the scheduler makes a claim for what a DeviceClass stands for and no plugin offers.
func byPlugin(c *snapshot.Cluster, name string, offered resource.Quantity) bool {
	return ClassOf(name, c.Classes) == "" || c.Minor < extendedSince || !offered.IsZero()
}

// lacks says which of the pod's extended resources a node's device plugins do not
// offer, "" where they offer all. Of a node that is known by name only nothing is
// known.
func (s *Subject) lacks(c *snapshot.Cluster, node *corev1.Node) string {
	if node.Status.Allocatable == nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(s.extended)) {
		wanted := s.extended[name]
		offered, known := node.Status.Allocatable[name]
		left := offered.DeepCopy()
		left.Sub(s.seated[name])
		switch {
		case !byPlugin(c, string(name), offered) || wanted.Cmp(left) <= 0:
		case known:
			return fmt.Sprintf("the node's device plugins have %s of %s, the pod asks for %s", left.String(), name, wanted.String())
		case ClassOf(string(name), c.Classes) != "":
			return fmt.Sprintf("no device plugin offers %s on the node, and before Kubernetes 1.%d no claim is made for it", name, extendedSince)
		default:
			return fmt.Sprintf("nobody serves %s: no device plugin offers it on the node, and no DeviceClass has it as extendedResourceName", name)
		}
	}
	return ""
}

// Seat counts one more pod like the subject's on a node: its device plugins have less
// left. What they offer stays the same, for whose affair a resource is goes by that.
func (s *Subject) Seat() {
	seated := corev1.ResourceList{}
	for name, wanted := range s.extended {
		sum := s.seated[name]
		sum.Add(wanted)
		seated[name] = sum
	}
	s.seated = seated
}

// pluginNotes say what was not compared of extended resources.
func (s *Subject) pluginNotes(c *snapshot.Cluster) []string {
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(s.extended)) {
		var known, unknown bool
		for _, n := range c.NodeNames() {
			node := c.Node(n)
			if node.Status.Allocatable == nil {
				unknown = unknown || byPlugin(c, string(name), resource.Quantity{})
			} else if byPlugin(c, string(name), node.Status.Allocatable[name]) {
				known = true
			}
		}
		if known {
			notes = append(notes, fmt.Sprintf("what other pods have of %s is not counted", name))
		}
		if unknown {
			notes = append(notes, fmt.Sprintf("whether device plugins offer %s is not known of nodes without a status", name))
		}
	}
	return notes
}
