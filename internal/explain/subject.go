// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/suggest"
)

// Subject is what is to be explained: claims that are to be allocated together.
type Subject struct {
	Kind, Namespace, Name string
	// Claims are those without an allocation, and Allocated those with one.
	Claims, Allocated []*resourceapi.ResourceClaim
	// Pod is whose selectors and tolerations count, nil for a claim by itself. The last
	// claim may be one that the scheduler makes by itself, for extended resources.
	Pod *corev1.Pod
	// Findings are what was found wrong on the way.
	Findings []Finding
	Notes    []string
	// asking is the pod whose extended resources count, nil for none; extended are how
	// many of each, none of a pod that has its node.
	asking   *corev1.Pod
	extended corev1.ResourceList
	// assumed is what pods like it have of a node's device plugins already.
	assumed corev1.ResourceList
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
	s.noteDropped(s.Kind, &t.ObjectMeta, &t.Spec.Spec)
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
		s.noteDropped("ResourceClaim", &c.ObjectMeta, &c.Spec)
		s.Claims = append(s.Claims, c)
	}
}

// OfPod makes a subject of a pod: its claims, those that its templates would make,
// and the one that the scheduler would make for extended resources.
func OfPod(p *corev1.Pod, claims []*resourceapi.ResourceClaim, templates []*resourceapi.ResourceClaimTemplate, classes map[string]*resourceapi.DeviceClass) Subject {
	s := Subject{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Pod: p}
	for i, ref := range p.Spec.ResourceClaims {
		path := fmt.Sprintf("spec.resourceClaims[%d]", i)
		switch {
		case generated(p, ref.Name) != "":
			name := generated(p, ref.Name)
			s.noteTemplate(templates, p.Namespace, ref.ResourceClaimTemplateName)
			s.addNamed(claims, p.Namespace, name, path)
		case ref.ResourceClaimName != nil:
			s.addNamed(claims, p.Namespace, *ref.ResourceClaimName, path+".resourceClaimName")
		case ref.ResourceClaimTemplateName != nil:
			s.addTemplate(templates, p, ref.Name, *ref.ResourceClaimTemplateName, path+".resourceClaimTemplateName")
		}
	}
	s.AddExtended(p, claims, classes)
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
			s.noteDropped("ResourceClaimTemplate", &t.ObjectMeta, &t.Spec.Spec)
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
	if meant := suggest.Closest(name, others); meant != "" {
		message += ": did it mean " + meant + "?"
	}
	s.Findings = append(s.Findings, Finding{Cause: ObjectAbsent, Object: s.String(), Field: path, Message: message})
}

// incomplete says whether something is missing without which the pod cannot
// start.
func (s *Subject) incomplete() bool {
	return slices.ContainsFunc(s.Findings, func(f Finding) bool { return f.Cause == ObjectAbsent })
}
