// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// Ask is a request for devices, or one of its alternatives.
type Ask struct {
	// Name is "request" or "request/subrequest".
	Name  string
	Class string
	// Path is where it lies in the claim's spec, for messages.
	Path string
	All  bool
	// Count is how many devices it wants where it does not want all.
	Count int64
	// Mode is as written where it is no mode that we know.
	Mode        resourceapi.DeviceAllocationMode
	Admin       bool
	AsksAdmin   bool
	Selectors   []resourceapi.DeviceSelector
	Tolerations []resourceapi.DeviceToleration
	Capacity    *resourceapi.CapacityRequirements
	Derived     []resourceapi.DeviceDerivedAttribute
	Sub         bool
}

// Asks lists the alternatives of a request: one, unless it has subrequests. It
// is empty for a request of a kind that came after us.
func Asks(index int, r *resourceapi.DeviceRequest) []Ask {
	path := fmt.Sprintf("spec.devices.requests[%d]", index)
	if len(r.FirstAvailable) > 0 {
		all := make([]Ask, len(r.FirstAvailable))
		for i, s := range r.FirstAvailable {
			all[i] = Ask{
				Name: r.Name + "/" + s.Name, Class: s.DeviceClassName, Path: fmt.Sprintf("%s.firstAvailable[%d]", path, i),
				Selectors: s.Selectors, Tolerations: s.Tolerations, Capacity: s.Capacity, Derived: s.DerivedAttributes, Sub: true,
			}
			all[i].setMode(s.AllocationMode, s.Count)
		}
		return all
	}
	e := r.Exactly
	if e == nil {
		return nil
	}
	ask := Ask{
		Name: r.Name, Class: e.DeviceClassName, Path: path + ".exactly", Selectors: e.Selectors, Tolerations: e.Tolerations,
		Capacity: e.Capacity, Derived: e.DerivedAttributes, Admin: ptr.Deref(e.AdminAccess, false), AsksAdmin: e.AdminAccess != nil,
	}
	ask.setMode(e.AllocationMode, e.Count)
	return []Ask{ask}
}

// setMode fills in what the API server fills in.
func (a *Ask) setMode(mode resourceapi.DeviceAllocationMode, count int64) {
	a.Mode, a.Count = mode, count
	switch mode {
	case resourceapi.DeviceAllocationModeAll:
		a.All = true
	case "", resourceapi.DeviceAllocationModeExactCount:
		a.Mode = resourceapi.DeviceAllocationModeExactCount
		if count == 0 {
			a.Count = 1
		}
	}
}
