// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// podSpecs checks what pods say of claims.
func (l linter) podSpecs() {
	for _, p := range l.o.pods {
		names, links := map[string]*object{}, map[string]string{}
		for i, c := range p.Spec.ResourceClaims {
			target := l.target(c)
			names[c.Name] = target
			if target != nil && p.Spec.HostNetwork && l.wantsNIC(target) {
				l.error(&field.Error{Type: field.ErrorTypeForbidden, Field: p.Path.Child("resourceClaims").Index(i).String(),
					Detail: "a pod in the host's network cannot be given a NIC: leave out hostNetwork, or this claim"})
			}
			l.interfaceNames(p.Path.Child("resourceClaims").Index(i), c.Name, target, links)
		}
		l.containers(p.Path.Child("initContainers"), p.Spec.InitContainers, names)
		l.containers(p.Path.Child("containers"), p.Spec.Containers, names)
	}
}

// target is the claim or template that a pod names, where it is given.
func (l linter) target(c corev1.PodResourceClaim) *object {
	kind, name := cmdutil.KindTemplate, c.ResourceClaimTemplateName
	if c.ResourceClaimName != nil {
		kind, name = cmdutil.KindClaim, c.ResourceClaimName
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

// wantsNIC says whether some request certainly takes a device of our driver.
func (l linter) wantsNIC(o *object) bool {
	return slices.ContainsFunc(o.requests(), func(r request) bool { return !r.admin && l.in.driverOf(r.class) == slicecodec.DriverNet })
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
