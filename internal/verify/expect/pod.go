// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Pod is what a pod should have.
type Pod struct {
	Namespace, Name, UID, Node string
	// HostNetwork pods see all interfaces of the host.
	HostNetwork bool
	// Ended says that the pod is going or gone: its devices may be taken from it.
	Ended      bool
	Containers []Container
	Claims     []Claim
	// Named are the claims that a container names, whether it runs or not: drivers give
	// those that none names to all containers.
	Named map[string]bool
	// Missing are claims of the pod that could not be read.
	Missing []string
}

// Container is a container that the pod's status says runs.
type Container struct {
	Name, ID string
	// Privileged containers reach every device of the host.
	Privileged bool
	// Uses are the requests it names, by ResourceClaim; an empty name stands for
	// all of the claim.
	Uses map[string][]string
	// GPUs are those of device plugins.
	GPUs []PluginGPUs
}

// Names says whether the container names a request of a claim.
func (c Container) Names(claim, request string) bool {
	base := resourceclaim.BaseRequestRef(request)
	return slices.ContainsFunc(c.Uses[claim], func(named string) bool { return named == "" || named == base })
}

// ClaimNames lists the ResourceClaims of a pod, by the pod's own words for them;
// one that was not made yet is missing.
func ClaimNames(pod *corev1.Pod) map[string]string {
	names := map[string]string{}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			names[s.Name] = *s.ResourceClaimName
		}
	}
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			names[c.Name] = *c.ResourceClaimName
		}
	}
	// A GPU asked for as nvidia.com/gpu comes in a claim that the scheduler made.
	if e := pod.Status.ExtendedResourceClaimStatus; e != nil && e.ResourceClaimName != "" {
		names["\x00extended resources"] = e.ResourceClaimName // no pod can use this word
	}
	return names
}

// PodOf reads a pod, its claims by name, and what the slices of its node publish.
func PodOf(pod *corev1.Pod, claims map[string]*resourceapi.ResourceClaim, published Published) Pod {
	p := Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName,
		HostNetwork: pod.Spec.HostNetwork,
		Ended:       pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
		Named:       map[string]bool{},
	}
	names := ClaimNames(pod)
	running := runningIDs(pod)
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		container := containerOf(c, running[c.Name], names, pod)
		for claim := range container.Uses {
			p.Named[claim] = true
		}
		if container.ID != "" {
			p.Containers = append(p.Containers, container)
		}
	}
	used := make([]string, 0, len(names))
	for _, name := range names {
		used = append(used, name)
	}
	slices.Sort(used)
	for _, name := range slices.Compact(used) {
		claim := claims[name]
		if claim == nil || claim.Status.Allocation == nil {
			p.Missing = append(p.Missing, name)
			continue
		}
		p.Claims = append(p.Claims, ClaimOf(claim, published))
	}
	return p
}

func containerOf(c corev1.Container, id string, names map[string]string, pod *corev1.Pod) Container {
	out := Container{Name: c.Name, ID: id, Uses: map[string][]string{}, GPUs: pluginGPUs(pod, c)}
	if s := c.SecurityContext; s != nil && s.Privileged != nil {
		out.Privileged = *s.Privileged
	}
	for _, use := range c.Resources.Claims {
		if name, ok := names[use.Name]; ok {
			out.Uses[name] = append(out.Uses[name], use.Request)
		}
	}
	if e := pod.Status.ExtendedResourceClaimStatus; e != nil {
		for _, m := range e.RequestMappings {
			if m.ContainerName == c.Name {
				out.Uses[e.ResourceClaimName] = append(out.Uses[e.ResourceClaimName], m.RequestName)
			}
		}
	}
	return out
}

// idLength is how many hexadecimal digits a runtime's id has.
const idLength = 64

// runningIDs are the ids of the containers that run, by name.
func runningIDs(pod *corev1.Pod) map[string]string {
	ids := map[string]string{}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		_, id, ok := strings.Cut(s.ContainerID, "://")
		if ok && s.State.Running != nil && len(id) == idLength && strings.Trim(id, "0123456789abcdef") == "" {
			ids[s.Name] = id
		}
	}
	return ids
}
