// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Container is a container of a pod that has claims.
type Container struct {
	Name string `json:"name"`
	// Init containers without a restart policy end before others start.
	Init bool `json:"init,omitempty"`
	// Claims are the ResourceClaims that it names.
	Claims []string `json:"claims,omitempty"`
	// Requests has cpu, Limits cpu and the huge pages.
	Requests corev1.ResourceList `json:"requests,omitempty"`
	Limits   corev1.ResourceList `json:"limits,omitempty"`
}

// Requested is how much CPU the containers request that name one of the claims,
// or all of them where none does, at the time when they request most.
func (f *Pod) Requested(claims []string) resource.Quantity {
	return f.most(claims, func(c Container) resource.Quantity { return c.Requests[corev1.ResourceCPU] })
}

// Limit is the same for the limit of a kind of huge pages, such as hugepages-2Mi.
func (f *Pod) Limit(claims []string, name string) resource.Quantity {
	return f.most(claims, func(c Container) resource.Quantity { return c.Limits[corev1.ResourceName(name)] })
}

// AllLimited says whether every container has a limit of CPU.
func (f *Pod) AllLimited() bool {
	return len(f.Containers) > 0 && !slices.ContainsFunc(f.Containers, func(c Container) bool {
		q := c.Limits[corev1.ResourceCPU]
		return q.Sign() <= 0
	})
}

func (f *Pod) most(claims []string, of func(Container) resource.Quantity) resource.Quantity {
	named := func(c Container) bool {
		return slices.ContainsFunc(c.Claims, func(claim string) bool { return slices.Contains(claims, claim) })
	}
	all := !slices.ContainsFunc(f.Containers, named)
	var together, alone resource.Quantity
	for _, c := range f.Containers {
		if !all && !named(c) {
			continue
		}
		q := of(c)
		if !c.Init {
			together.Add(q)
		} else if q.Cmp(alone) > 0 {
			alone = q
		}
	}
	if alone.Cmp(together) > 0 {
		return alone
	}
	return together
}

// standard keeps what claims give too.
func standard(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	small := corev1.ResourceRequirements{Claims: r.Claims}
	if q, ok := r.Requests[corev1.ResourceCPU]; ok {
		small.Requests = corev1.ResourceList{corev1.ResourceCPU: q}
	}
	for name, q := range r.Limits {
		if name != corev1.ResourceCPU && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			continue
		}
		if small.Limits == nil {
			small.Limits = corev1.ResourceList{}
		}
		small.Limits[name] = q
	}
	return small
}

func containerOf(c corev1.Container, init bool, claims map[string]string) Container {
	out := Container{
		Name: c.Name, Requests: c.Resources.Requests, Limits: c.Resources.Limits,
		Init: init && (c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways),
	}
	for _, named := range c.Resources.Claims {
		if claim, ok := claims[named.Name]; ok {
			out.Claims = append(out.Claims, claim)
		}
	}
	return out
}
