// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// ExtendedResource is the cause of a finding: devices that no claim names.
const ExtendedResource = "extended-resource"

// AddExtended adds the extended resources that a pod asks for: the claim that the
// scheduler makes for those of device classes, as
// pkg/scheduler/framework/plugins/dynamicresources does (KEP-5004), and what device
// plugins are to offer. It says that no constraint can name any of them. claims are
// those that may be there already.
func (s *Subject) AddExtended(p *corev1.Pod, claims []*resourceapi.ResourceClaim, classes map[string]*resourceapi.DeviceClass) {
	s.asking = p
	if p.Spec.NodeName == "" {
		s.extended = extendedResources(p)
	}
	asked := map[string]string{}
	var meant []string
	for i, c := range containersOf(p) {
		for _, name := range slices.Sorted(maps.Keys(asks(&c))) {
			n, request := wanted(&c, i, string(name))
			if n == 0 {
				continue
			}
			class := ClassOf(string(name), classes)
			if class != "" {
				asked[string(name)] = class
				meant = append(meant, fmt.Sprintf("%s is %s of container %s", request, name, c.Name))
			}
			if len(p.Spec.ResourceClaims) == 0 || class == "" && !strings.HasSuffix(string(name), "/gpu") {
				continue
			}
			s.Findings = append(s.Findings, extendedFinding(s, p, i, string(name), class))
		}
	}
	switch made := p.Status.ExtendedResourceClaimStatus; {
	case made != nil:
		s.addNamed(claims, p.Namespace, made.ResourceClaimName, "status.extendedResourceClaimStatus.resourceClaimName")
	case len(asked) > 0:
		c := extendedClaim(p, asked)
		s.Claims = append(s.Claims, c)
		s.Notes = append(s.Notes, fmt.Sprintf("claim %s is the one that the scheduler makes for extended resources: %s", c.Name, strings.Join(meant, ", ")))
	}
}

func extendedFinding(s *Subject, p *corev1.Pod, container int, name, class string) Finding {
	message := name + " is asked for as an extended resource: no constraint can name it, so it is not aligned with the devices of the pod's claims"
	if class != "" {
		message += "; ask for class " + class + " in the claim instead"
	}
	field := fmt.Sprintf("spec.initContainers[%d].resources.limits[%s]", container, name)
	if init := len(p.Spec.InitContainers); container >= init {
		field = fmt.Sprintf("spec.containers[%d].resources.limits[%s]", container-init, name)
	}
	return Finding{Cause: ExtendedResource, Object: s.String(), Field: field, Message: message}
}

func containersOf(p *corev1.Pod) []corev1.Container {
	return slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
}

// asks is what a container asks for; limits stand for requests that are not
// written, as the API server has it.
func asks(c *corev1.Container) corev1.ResourceList {
	all := corev1.ResourceList{}
	maps.Copy(all, c.Resources.Limits)
	maps.Copy(all, c.Resources.Requests)
	return all
}

// ClassOf is the device class behind an extended resource, "" without any. Of
// several it is the newest, and of those the first by name.
func ClassOf(resourceName string, classes map[string]*resourceapi.DeviceClass) string {
	if name, implicit := strings.CutPrefix(resourceName, resourceapi.ResourceDeviceClassPrefix); implicit && classes[name] != nil {
		return name
	}
	var found []*resourceapi.DeviceClass
	for _, class := range classes {
		if class.Spec.ExtendedResourceName != nil && *class.Spec.ExtendedResourceName == resourceName {
			found = append(found, class)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.MinFunc(found, func(a, b *resourceapi.DeviceClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}).Name
}

// extendedClaim is a claim with a request for each container and resource. Init
// containers use what those that run later have, and the largest of them asks for
// what it wants beyond.
func extendedClaim(p *corev1.Pod, classes map[string]string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: p.Name + "-extended-resources",
		Annotations: map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
	}}
	for _, resourceName := range slices.Sorted(maps.Keys(classes)) {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, extendedRequests(p, resourceName, classes[resourceName])...)
	}
	slices.SortFunc(c.Spec.Devices.Requests, func(a, b resourceapi.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

func extendedRequests(p *corev1.Pod, resourceName, class string) []resourceapi.DeviceRequest {
	containers := containersOf(p)
	var lasting, passing []resourceapi.DeviceRequest
	later := int64(0) // what containers from here on have while they all run
	for i := len(containers) - 1; i >= 0; i-- {
		n, name := wanted(&containers[i], i, resourceName)
		switch {
		case n == 0:
		case i >= len(p.Spec.InitContainers) || sidecar(&containers[i]):
			lasting = append(lasting, extendedRequest(name, class, n))
			later += n
		case n > later:
			passing = append(passing, extendedRequest(name, class, n-later))
		}
	}
	if len(passing) == 0 {
		return lasting
	}
	slices.Reverse(passing)
	largest := slices.MaxFunc(passing, func(a, b resourceapi.DeviceRequest) int { return cmp.Compare(a.Exactly.Count, b.Exactly.Count) })
	return append(lasting, largest)
}

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// wanted is how many devices a container asks for, and what the scheduler calls
// the request.
func wanted(c *corev1.Container, index int, resourceName string) (int64, string) {
	all := asks(c)
	n, whole := all.Name(corev1.ResourceName(resourceName), "").AsInt64()
	if !whole {
		return 0, ""
	}
	at := slices.Index(slices.Sorted(maps.Keys(all)), corev1.ResourceName(resourceName))
	return n, fmt.Sprintf("container-%d-request-%d", index, at)
}

func extendedRequest(name, class string, n int64) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: n,
	}}
}

// extendedSince is the first minor version that makes claims for extended
// resources without a feature gate (DRAExtendedResource).
const extendedSince = 36

// ClaimsOn are the claims that are to be allocated on a node: where a device
// plugin offers an extended resource the scheduler makes no claim for it.
func (s *Subject) ClaimsOn(c *snapshot.Cluster, node *corev1.Node) []*resourceapi.ResourceClaim {
	if s.asking == nil || len(s.Claims) == 0 {
		return s.Claims
	}
	last := s.Claims[len(s.Claims)-1]
	if last.Annotations[resourceapi.ExtendedResourceClaimAnnotation] != "true" {
		return s.Claims
	}
	asked := map[string]string{}
	offered := false
	for i, container := range containersOf(s.asking) {
		for name := range asks(&container) {
			class := ClassOf(string(name), c.Classes)
			if n, _ := wanted(&container, i, string(name)); n == 0 || class == "" {
				continue
			}
			amount := node.Status.Allocatable[name]
			if c.Minor < extendedSince || !amount.IsZero() {
				offered = true
				continue
			}
			asked[string(name)] = class
		}
	}
	if !offered {
		return s.Claims
	}
	others := s.Claims[: len(s.Claims)-1 : len(s.Claims)-1]
	if len(asked) == 0 {
		return others
	}
	return append(others, extendedClaim(s.asking, asked))
}

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

// byPlugin says whether a node's extended resource is served by its device plugin:
// the scheduler makes a claim for what a DeviceClass stands for and no plugin offers.
func byPlugin(c *snapshot.Cluster, name string, offered resource.Quantity) bool {
	return ClassOf(name, c.Classes) == "" || c.Minor < extendedSince || !offered.IsZero()
}

// lacksExtended says which of the pod's extended resources a node's device plugins do not
// offer, "" where they offer all. Of a node that is known by name only nothing is
// known.
func (s *Subject) lacksExtended(c *snapshot.Cluster, node *corev1.Node) string {
	if node.Status.Allocatable == nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(s.extended)) {
		wanted := s.extended[name]
		offered, known := node.Status.Allocatable[name]
		left := offered.DeepCopy()
		left.Sub(s.assumed[name])
		switch {
		case !byPlugin(c, string(name), offered) || wanted.Cmp(left) <= 0:
		case known:
			return fmt.Sprintf("the node's device plugins have %s of %s, the pod asks for %s", left.String(), name, wanted.String())
		case ClassOf(string(name), c.Classes) != "":
			return fmt.Sprintf("no device plugin offers %s on the node, and before Kubernetes 1.%d no claim is made for it", name, extendedSince)
		default:
			return fmt.Sprintf("%s is not served: no device plugin offers it on the node, and no DeviceClass has it as extendedResourceName", name)
		}
	}
	return ""
}

// AssumePod counts one more pod like the subject's on a node: its device plugins have less
// left. What they offer stays the same: by that it is decided whether the resource is the
// plugins' or a class's.
func (s *Subject) AssumePod() {
	assumed := corev1.ResourceList{}
	for name, wanted := range s.extended {
		sum := s.assumed[name]
		sum.Add(wanted)
		assumed[name] = sum
	}
	s.assumed = assumed
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
