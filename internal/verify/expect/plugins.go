// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/internal/deviceplugin"
)

// PluginGPUs are GPUs that a container gets of a device plugin, without a claim.
// Only the kernel says which.
type PluginGPUs struct {
	// Resource is the extended resource, such as nvidia.com/gpu; of a container that
	// asks for several of a vendor's, all of them: nothing distinguishes their GPUs.
	Resource string
	// Count is how many the container asks for. A plugin may give several
	// containers one GPU, or one container the same GPU several times.
	Count int
	// Vendor is the PCI vendor of the GPUs.
	Vendor uint16
}

// pluginGPUs are those of a container, by vendor. What a DRA driver serves in the
// plugin's place is a claim's.
func pluginGPUs(pod *corev1.Pod, c corev1.Container) []PluginGPUs {
	served := map[string]bool{}
	if e := pod.Status.ExtendedResourceClaimStatus; e != nil {
		for _, m := range e.RequestMappings {
			if m.ContainerName == c.Name {
				served[m.ResourceName] = true
			}
		}
	}
	var list []PluginGPUs
	for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
		resource := string(name)
		vendor, known := deviceplugin.GPUVendor(resource)
		n := c.Resources.Limits[name]
		if !known || served[resource] || n.Value() <= 0 {
			continue
		}
		if at := slices.IndexFunc(list, func(g PluginGPUs) bool { return g.Vendor == vendor }); at >= 0 {
			list[at].Resource += ", " + resource
			list[at].Count += int(n.Value())
			continue
		}
		list = append(list, PluginGPUs{Resource: resource, Count: int(n.Value()), Vendor: vendor})
	}
	return list
}
