// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// podSpec is a pod's spec somewhere in an object: in a pod, a Deployment, or a
// kind that only its operator knows.
type podSpec struct {
	path *field.Path
	spec corev1.PodSpec
}

// findPods finds every object that looks like a pod's spec with claims.
func findPods(path *field.Path, v any) []podSpec {
	var found []podSpec
	switch v := v.(type) {
	case map[string]any:
		if spec, ok := asPodSpec(v); ok {
			return []podSpec{{path, spec}}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			found = append(found, findPods(path.Child(name), v[name])...)
		}
	case []any:
		for i, element := range v {
			found = append(found, findPods(path.Index(i), element)...)
		}
	}
	return found
}

func asPodSpec(v map[string]any) (corev1.PodSpec, bool) {
	var spec corev1.PodSpec
	_, containers := v["containers"].([]any)
	_, claims := v["resourceClaims"].([]any)
	if !containers || !claims {
		return spec, false
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(v, &spec)
	return spec, err == nil
}

// podSpecs checks what pods say of claims.
func (l linter) podSpecs() {
	for _, p := range l.o.pods {
		names := map[string]*object{}
		for i, c := range p.spec.ResourceClaims {
			target := l.target(c)
			names[c.Name] = target
			if target != nil && p.spec.HostNetwork && l.wantsNIC(target) {
				l.error(&field.Error{Type: field.ErrorTypeForbidden, Field: p.path.Child("resourceClaims").Index(i).String(),
					Detail: "a pod in the host's network cannot be given a NIC: leave out hostNetwork, or this claim"})
			}
		}
		l.containers(p.path.Child("initContainers"), p.spec.InitContainers, names)
		l.containers(p.path.Child("containers"), p.spec.Containers, names)
	}
}

// target is the claim or template that a pod names, where it is given.
func (l linter) target(c corev1.PodResourceClaim) *object {
	kind, name := kindTemplate, c.ResourceClaimTemplateName
	if c.ResourceClaimName != nil {
		kind, name = kindClaim, c.ResourceClaimName
	}
	if name == nil {
		return nil
	}
	o, err := l.in.find(kind, l.o.namespace, *name)
	if err != nil {
		return nil
	}
	return o
}

// wantsNIC says whether some request is certainly for our driver.
func (l linter) wantsNIC(o *object) bool {
	return slices.ContainsFunc(o.requests(), func(r request) bool { return l.in.driverOf(r.class) == slicecodec.DriverNet })
}

// containers wants the claims and requests that containers name to be there.
func (l linter) containers(at *field.Path, containers []corev1.Container, names map[string]*object) {
	for i, c := range containers {
		for j, r := range c.Resources.Claims {
			path := at.Index(i).Child("resources", "claims").Index(j)
			target, listed := names[r.Name]
			if !listed {
				l.error(notFound(path.Child("name"), r.Name, slices.Sorted(maps.Keys(names))))
			}
			if target == nil || r.Request == "" {
				continue
			}
			var known []string
			for _, q := range target.claim.Devices.Requests {
				known = append(known, q.Name)
			}
			if !slices.Contains(known, r.Request) {
				l.error(notFound(path.Child("request"), r.Request, known))
			}
		}
	}
}
