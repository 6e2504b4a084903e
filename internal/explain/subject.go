// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/structured"

	"plumbline.dev/plumbline/api/nearest"
	"plumbline.dev/plumbline/internal/explain/cluster"
)

// Subject is what is to be explained: claims that are to be allocated together.
type Subject struct {
	Kind, Namespace, Name string
	// Claims are those without an allocation, and Allocated those with one.
	Claims, Allocated []*resourceapi.ResourceClaim
	// Pod is whose claims they are, nil for a claim by itself.
	Pod *corev1.Pod
	// Findings are what was found wrong on the way.
	Findings []Finding
	Notes    []string
}

// String is as kubectl names an object, with its namespace.
func (s Subject) String() string {
	if s.Namespace == "" {
		return s.Kind + " " + s.Name
	}
	return s.Kind + " " + s.Namespace + "/" + s.Name
}

// OfClaim makes a subject of a claim.
func OfClaim(c *resourceapi.ResourceClaim) Subject {
	s := Subject{Kind: "ResourceClaim", Namespace: c.Namespace, Name: c.Name}
	s.add(c)
	return s
}

// OfTemplate makes a subject of the claim that a template would make.
func OfTemplate(t *resourceapi.ResourceClaimTemplate) Subject {
	s := Subject{Kind: "ResourceClaimTemplate", Namespace: t.Namespace, Name: t.Name}
	s.add(fromTemplate(t, t.Name))
	return s
}

func fromTemplate(t *resourceapi.ResourceClaimTemplate, name string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: name}, Spec: t.Spec.Spec}
}

func (s *Subject) add(c *resourceapi.ResourceClaim) {
	if c.Status.Allocation != nil {
		s.Allocated = append(s.Allocated, c)
	} else {
		s.Claims = append(s.Claims, c)
	}
}

// OfPod makes a subject of a pod: its claims, and those that its templates would
// make.
func OfPod(p *corev1.Pod, claims []*resourceapi.ResourceClaim, templates []*resourceapi.ResourceClaimTemplate, classes map[string]*resourceapi.DeviceClass) Subject {
	s := Subject{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Pod: p}
	for i, ref := range p.Spec.ResourceClaims {
		path := fmt.Sprintf("spec.resourceClaims[%d]", i)
		switch {
		case generated(p, ref.Name) != "":
			name := generated(p, ref.Name)
			s.addNamed(claims, p.Namespace, name, path)
		case ref.ResourceClaimName != nil:
			s.addNamed(claims, p.Namespace, *ref.ResourceClaimName, path+".resourceClaimName")
		case ref.ResourceClaimTemplateName != nil:
			s.addTemplate(templates, p, ref.Name, *ref.ResourceClaimTemplateName, path+".resourceClaimTemplateName")
		}
	}
	s.extended(p, classes)
	return s
}

// generated is the claim that was made for a pod from a template, "" before it
// is.
func generated(p *corev1.Pod, name string) string {
	for _, status := range p.Status.ResourceClaimStatuses {
		if status.Name == name && status.ResourceClaimName != nil {
			return *status.ResourceClaimName
		}
	}
	return ""
}

func (s *Subject) addNamed(claims []*resourceapi.ResourceClaim, namespace, name, path string) {
	var others []string
	for _, c := range claims {
		if c.Namespace != namespace {
			continue
		}
		if c.Name == name {
			s.add(c)
			return
		}
		others = append(others, c.Name)
	}
	s.absent("ResourceClaim", namespace, name, path, others)
}

func (s *Subject) addTemplate(templates []*resourceapi.ResourceClaimTemplate, p *corev1.Pod, ref, name, path string) {
	var others []string
	for _, t := range templates {
		if t.Namespace != p.Namespace {
			continue
		}
		if t.Name == name {
			s.add(fromTemplate(t, p.Name+"-"+ref))
			return
		}
		others = append(others, t.Name)
	}
	s.absent("ResourceClaimTemplate", p.Namespace, name, path, others)
}

// ObjectAbsent is the cause of a finding: something named does not exist.
const ObjectAbsent = "object-absent"

func (s *Subject) absent(kind, namespace, name, path string, others []string) {
	message := fmt.Sprintf("%s %s/%s does not exist", kind, namespace, name)
	if meant := nearest.Of(name, others); meant != "" {
		message += ": did it mean " + meant + "?"
	}
	s.Findings = append(s.Findings, Finding{Cause: ObjectAbsent, Object: s.String(), Field: path, Message: message})
}

// incomplete says whether something is missing without which the pod cannot
// start.
func (s *Subject) incomplete() bool {
	return slices.ContainsFunc(s.Findings, func(f Finding) bool { return f.Cause == ObjectAbsent })
}

// ExtendedResource is the cause of a finding: devices that no claim names.
const ExtendedResource = "extended-resource"

// extended finds devices that a pod asks for as an extended resource: they come
// from a device plugin, or from a claim that the scheduler makes by itself, and
// no constraint can name them.
func (s *Subject) extended(p *corev1.Pod, classes map[string]*resourceapi.DeviceClass) {
	if len(p.Spec.ResourceClaims) == 0 {
		return
	}
	const implicit = "deviceclass.resource.kubernetes.io/"
	for i, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for name := range c.Resources.Limits {
			text := string(name)
			class, known := strings.CutPrefix(text, implicit)
			for _, other := range classes {
				if other.Spec.ExtendedResourceName != nil && *other.Spec.ExtendedResourceName == text {
					class, known = other.Name, true
				}
			}
			if !known && !strings.HasSuffix(text, "/gpu") {
				continue
			}
			message := fmt.Sprintf("%s is asked for as an extended resource: no constraint can name it, so it is not aligned with the devices of the pod's claims", text)
			if known {
				message += "; ask for class " + class + " in the claim instead"
			}
			s.Findings = append(s.Findings, Finding{Cause: ExtendedResource, Object: s.String(),
				Field: fmt.Sprintf("spec.containers[%d].resources.limits[%s]", i, text), Message: message})
		}
	}
	slices.SortFunc(s.Findings, func(a, b Finding) int { return strings.Compare(a.Field, b.Field) })
}

// excludes says why a node is out of the question for other reasons than
// devices, as far as the pod's own selectors and taints go.
func (s *Subject) excludes(node *corev1.Node) string {
	for _, c := range s.Allocated {
		selector := c.Status.Allocation.NodeSelector
		if selector == nil {
			continue
		}
		if matches, err := structured.NodeMatches(cluster.Gates{}, node, "", false, selector); err == nil && !matches {
			return fmt.Sprintf("claim %s/%s is allocated elsewhere", c.Namespace, c.Name)
		}
	}
	if s.Pod == nil {
		return ""
	}
	return podExcludes(s.Pod, node)
}

// podExcludes says why a pod's own spec keeps it from a node. Of a node that is
// known by name only nothing is known.
func podExcludes(p *corev1.Pod, node *corev1.Node) string {
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
			return fmt.Sprintf("the pod does not tolerate the node's taint %s=%s:%s", t.Key, t.Value, t.Effect)
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
