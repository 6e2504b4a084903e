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
	Config  parameters       `json:"config"`
	Origins v1alpha1.Origins `json:"origins"`
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
		for _, s := range schemas {
			for _, a := range in.allocations(o, s.driver) {
				r, err := in.render(s, o, a)
				if err != nil {
					return nil, fmt.Errorf("%s, request %s: %w", o, a.Request, err)
				}
				all = append(all, r)
			}
		}
	}
	if !found {
		return nil, errors.New("no ResourceClaim and no ResourceClaimTemplate among the objects")
	}
	return all, nil
}

// allocations are the devices of a driver that a claim has, or that its requests
// may be given.
func (in *inputs) allocations(o *object, driverName string) []driver.Allocation {
	if o.allocation != nil {
		return allocatedDevices(o.allocation, driverName)
	}
	var all []driver.Allocation
	for _, r := range o.requests() {
		if in.mayBeOf(o, r, driverName) {
			all = append(all, in.allocated(o, r, driverName))
		}
	}
	return all
}

// allocatedDevices are a driver's devices of an allocated claim, of all nodes,
// with the parameters that the scheduler wrote down.
func allocatedDevices(a *resourceapi.AllocationResult, driverName string) []driver.Allocation {
	claim := &resourceapi.ResourceClaim{}
	claim.Status.Allocation = a
	var all []driver.Allocation
	var pools []string
	for _, r := range a.Devices.Results {
		if !slices.Contains(pools, r.Pool) {
			pools = append(pools, r.Pool)
			all = append(all, driver.FromAPI(claim, driverName, r.Pool).Devices...)
		}
	}
	return all
}

func (in *inputs) render(s schema, o *object, a driver.Allocation) (rendered, error) {
	class := ""
	for _, r := range o.requests() {
		if r.name == a.Request {
			class = r.class
		}
	}
	layers, err := s.decodeLayers(a.Configs)
	if err != nil {
		return rendered{}, err
	}
	r := rendered{Kind: o.kind, Namespace: o.namespace, Name: o.name, Request: a.Request, Pool: a.Pool, Device: a.Device}
	r.Config, r.Origins = s.effective(nameLayers(layers, class))
	for _, e := range mistakesOf(r.Config) {
		r.Mistakes = append(r.Mistakes, e.Error())
	}
	if a.AdminAccess {
		r.Notes = append(r.Notes, "admin access looks at the device: none of this is done to it")
	}
	if o.allocation == nil && in.classes[class] == nil {
		r.Notes = append(r.Notes, "class "+class+" is not among the objects: its parameters are not shown")
	}
	if nic, ok := r.Config.(*v1alpha1.NetworkConfig); ok && nic.Profile != nil && *nic.Profile != "" {
		r.Notes = append(r.Notes, "profile "+*nic.Profile+": what it holds is known on the node only")
	}
	return r, nil
}

// nameLayers gives the class its name, and layers of one source numbers.
func nameLayers(layers []layer, class string) []layer {
	total, seen := map[string]int{}, map[string]int{}
	for _, l := range layers {
		total[l.source]++
	}
	var named []layer
	for _, l := range layers {
		seen[l.source]++
		name := l.source
		if l.source == sourceClass && class != "" {
			name += " " + class
		}
		if total[l.source] > 1 {
			name += fmt.Sprintf(" (%d of %d)", seen[l.source], total[l.source])
		}
		named = append(named, layer{name, l.config})
	}
	return named
}
