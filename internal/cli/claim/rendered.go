// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// rendered is what one device, or one request, gets.
type rendered struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Request   string `json:"request"`
	// Pool and Device are absent before the allocation.
	Pool   string `json:"pool,omitempty"`
	Device string `json:"device,omitempty"`
	// Config is the effective configuration, and Origins says of each field
	// where it comes from.
	Config  *v1alpha1.NetworkConfig `json:"config"`
	Origins v1alpha1.Origins        `json:"origins"`
	// Mistakes are why the driver would refuse it.
	Mistakes []string `json:"mistakes,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

// render shows all claims and templates.
func render(in *inputs) ([]rendered, error) {
	all := []rendered{}
	found := false
	for _, o := range in.objects {
		if o.claim == nil {
			continue
		}
		found = true
		var allocations []driver.Allocation
		if o.allocation != nil {
			allocations = allocatedDevices(o.allocation)
		} else {
			for _, r := range o.requests() {
				if in.mayBeNetwork(r) {
					allocations = append(allocations, in.allocated(o, r))
				}
			}
		}
		for _, a := range allocations {
			r, err := in.render(o, a)
			if err != nil {
				return nil, fmt.Errorf("%s, request %s: %w", o, a.Request, err)
			}
			all = append(all, r)
		}
	}
	if !found {
		return nil, errors.New("no ResourceClaim and no ResourceClaimTemplate among the objects")
	}
	return all, nil
}

// allocatedDevices are the NICs of an allocated claim, of all nodes, with the
// parameters that the scheduler wrote down.
func allocatedDevices(a *resourceapi.AllocationResult) []driver.Allocation {
	claim := &resourceapi.ResourceClaim{}
	claim.Status.Allocation = a
	var all []driver.Allocation
	var pools []string
	for _, r := range a.Devices.Results {
		if !slices.Contains(pools, r.Pool) {
			pools = append(pools, r.Pool)
			all = append(all, driver.FromAPI(claim, slicecodec.DriverNet, r.Pool).Devices...)
		}
	}
	return all
}

func (in *inputs) render(o *object, a driver.Allocation) (rendered, error) {
	class := ""
	for _, r := range o.requests() {
		if r.name == a.Request {
			class = r.class
		}
	}
	layers, err := decodeLayers(a.Configs)
	if err != nil {
		return rendered{}, err
	}
	r := rendered{Kind: o.kind, Namespace: o.namespace, Name: o.name, Request: a.Request, Pool: a.Pool, Device: a.Device}
	r.Config, r.Origins = v1alpha1.EffectiveNetworkConfig(nameLayers(layers, class)...)
	for _, e := range r.Config.Mistakes() {
		r.Mistakes = append(r.Mistakes, e.Error())
	}
	if a.AdminAccess {
		r.Notes = append(r.Notes, "admin access looks at the device: none of this is done to it")
	}
	if o.allocation == nil && in.classes[class] == nil {
		r.Notes = append(r.Notes, "class "+class+" is not among the objects: its parameters are not shown")
	}
	if p := r.Config.Profile; p != nil && *p != "" {
		r.Notes = append(r.Notes, "profile "+*p+": what it holds is known on the node only")
	}
	return r, nil
}

// nameLayers gives the class its name, and layers of one source numbers.
func nameLayers(layers []v1alpha1.Layer, class string) []v1alpha1.Layer {
	total, seen := map[string]int{}, map[string]int{}
	for _, l := range layers {
		total[l.Source]++
	}
	var named []v1alpha1.Layer
	for _, l := range layers {
		seen[l.Source]++
		name := l.Source
		if l.Source == sourceClass && class != "" {
			name += " " + class
		}
		if total[l.Source] > 1 {
			name += fmt.Sprintf(" (%d of %d)", seen[l.Source], total[l.Source])
		}
		named = append(named, v1alpha1.Layer{Source: name, Config: l.Config})
	}
	return named
}
