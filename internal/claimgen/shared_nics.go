// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// attrIfName is what every NIC has that can be shared: a bond has no PCI address.
const attrIfName = slicecodec.DriverNet + "/ifName"

// sharedRules checks the options for NICs that are shared, and for addresses of a pool.
func (o *Options) sharedRules() []rule {
	wrong := o.Bandwidth != ""
	if q, err := resource.ParseQuantity(o.Bandwidth); err == nil {
		wrong = q.Sign() <= 0
	}
	return []rule{
		{o.Shared && o.NICs == 0, "--shared is for NICs: want --nics with it"},
		{o.Bandwidth != "" && !o.Shared, fmt.Sprintf("--bandwidth %q is taken of NICs that are shared: want --shared with it", o.Bandwidth)},
		{wrong, fmt.Sprintf("--bandwidth %q: want bits per second, such as 40G", o.Bandwidth)},
		{o.Shared && len(o.VF) > 0, fmt.Sprintf("--vf %s sets what is the NIC's, and with --shared others have it too: want one of them", o.vf())},
		{o.Pool != "" && o.NICs == 0, fmt.Sprintf("--pool %q is for NICs: want --nics with it", o.Pool)},
	}
}

// nicClass is the device class of the NICs.
func (o *Options) nicClass() string {
	if o.Shared {
		return slicecodec.ClassShared
	}
	return slicecodec.DriverNet
}

// nicCapacity is what is taken of each NIC beside a slot; nil for nothing.
func (o *Options) nicCapacity() *resourceapi.CapacityRequirements {
	if o.Bandwidth == "" {
		return nil
	}
	return &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
		slicecodec.CapacityBandwidth: resource.MustParse(o.Bandwidth),
	}}
}

// nicsApart keeps the claim from two shares of one NIC: who asks for several NICs wants
// them, and not several links on one.
func (g *generator) nicsApart() {
	if g.o.Shared && g.o.NICs > 1 {
		g.spec.Devices.Constraints = append(g.spec.Devices.Constraints, resourceapi.DeviceConstraint{
			Requests: slices.Clone(g.nics), DistinctAttribute: ptr.To[resourceapi.FullyQualifiedName](attrIfName),
		})
	}
}
