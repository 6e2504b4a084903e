// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PodSpec is a pod's spec somewhere in an object: in a pod, a Deployment, or a
// kind that only its operator knows.
type PodSpec struct {
	Path *field.Path
	Spec corev1.PodSpec
}

// FindPods finds every object that looks like a pod's spec with claims, or that asks for
// extended resources, for which the scheduler may make a claim.
func FindPods(path *field.Path, v any) []PodSpec {
	var found []PodSpec
	switch v := v.(type) {
	case map[string]any:
		if spec, ok := asPodSpec(v); ok {
			return []PodSpec{{path, spec}}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			found = append(found, FindPods(path.Child(name), v[name])...)
		}
	case []any:
		for i, element := range v {
			found = append(found, FindPods(path.Index(i), element)...)
		}
	}
	return found
}

func asPodSpec(v map[string]any) (corev1.PodSpec, bool) {
	var spec corev1.PodSpec
	_, containers := v["containers"].([]any)
	_, claims := v["resourceClaims"].([]any)
	if !containers {
		return spec, false
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(v, &spec)
	return spec, err == nil && (claims || asksExtended(&spec))
}

// asksExtended says whether a container asks for a resource of a vendor's name, such as
// nvidia.com/gpu.
func asksExtended(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
		for name := range c.Resources.Limits {
			if domain, _, of := strings.Cut(string(name), "/"); of && domain != "kubernetes.io" {
				return true
			}
		}
		return false
	})
}
