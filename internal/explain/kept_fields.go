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

	"plumbline.dev/plumbline/internal/allocation"
)

// Derives says whether a claim has derived attributes: fields that an API server drops
// without a word where feature gate DRADerivedAttributes is off.
func Derives(spec *resourceapi.ResourceClaimSpec) bool {
	return slices.ContainsFunc(spec.Devices.Requests, func(r resourceapi.DeviceRequest) bool {
		return r.Exactly != nil && len(r.Exactly.DerivedAttributes) > 0 ||
			slices.ContainsFunc(r.FirstAvailable, func(s resourceapi.DeviceSubRequest) bool { return len(s.DerivedAttributes) > 0 })
	})
}

// Kept says whether any object that an API server wrote, which is one with a UID, has
// derived attributes: then its feature gate is on, or was when they came.
func Kept(claims []*resourceapi.ResourceClaim, templates []*resourceapi.ResourceClaimTemplate) bool {
	return slices.ContainsFunc(claims, func(c *resourceapi.ResourceClaim) bool { return c.UID != "" && Derives(&c.Spec) }) ||
		slices.ContainsFunc(templates, func(t *resourceapi.ResourceClaimTemplate) bool { return t.UID != "" && Derives(&t.Spec.Spec) })
}

// GatesOfKept are the feature gates of a scheduler whose API server keeps derived
// attributes, with what is to be said of that: their gate is taken to be on, unless what
// was said of gates (--feature-gates) names it.
func GatesOfKept(g allocation.Gates, said string) (allocation.Gates, string) {
	if g.DerivedAttributes || strings.Contains(said, allocation.GateDerivedAttributes) {
		return g, ""
	}
	g.DerivedAttributes = true
	return g, fmt.Sprintf("the API server keeps derivedAttributes, so feature gate %s is taken to be on in the scheduler too: --feature-gates %[1]s=false where it is not",
		allocation.GateDerivedAttributes)
}

// Dropped says that an object was applied with derived attributes which the API server
// dropped: kubectl apply leaves what it was given in an annotation. What was created
// otherwise leaves no trace. The name is looked for as text, in whatever version of the
// API the object was written.
func Dropped(meta *metav1.ObjectMeta, spec *resourceapi.ResourceClaimSpec) bool {
	return !Derives(spec) && strings.Contains(meta.Annotations[corev1.LastAppliedConfigAnnotation], `"derivedAttributes"`)
}

// DroppedText is what there is to say of what was dropped.
const DroppedText = "derivedAttributes were applied, and the API server has dropped them: feature gate " + allocation.GateDerivedAttributes +
	" is off there, and constraints compare what devices publish. Switch it on in the API server and the scheduler, and apply again"

// noteDropped adds a note of an object whose derived attributes were dropped.
func (s *Subject) noteDropped(kind string, meta *metav1.ObjectMeta, spec *resourceapi.ResourceClaimSpec) {
	if Dropped(meta, spec) {
		s.Notes = append(s.Notes, fmt.Sprintf("%s %s/%s: %s", kind, meta.Namespace, meta.Name, DroppedText))
	}
}

// noteTemplate is noteDropped for the template that a claim was made from: the claim
// itself was not applied.
func (s *Subject) noteTemplate(templates []*resourceapi.ResourceClaimTemplate, namespace string, name *string) {
	for _, t := range templates {
		if name != nil && t.Namespace == namespace && t.Name == *name {
			s.noteDropped("ResourceClaimTemplate", &t.ObjectMeta, &t.Spec.Spec)
		}
	}
}
