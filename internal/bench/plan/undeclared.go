// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// ErrUndeclared is of two arms that differ in what was not declared, or not in what was.
var ErrUndeclared = errors.New("the arms are no comparison")

// Device is one that an arm has on one side.
type Device struct {
	// Role is the side's.
	Role    string `json:"role"`
	Request string `json:"request,omitempty"`
	Driver  string `json:"driver"`
	Pool    string `json:"pool"`
	Device  string `json:"device"`
}

// String is the device as people name it, with its side.
func (d Device) String() string { return fmt.Sprintf("%s %s/%s", d.Role, d.Pool, d.Device) }

// variable is what the device is.
func (d Device) variable() Variable {
	switch d.Driver {
	case slicecodec.DriverNet:
		return NIC
	case slicecodec.DriverCPU:
		return CPUs
	}
	return GPU
}

// Devices are those of one arm, by the claims as allocated: all but those that are the
// other arm's alone.
func (p *Plan) Devices(arm Arm, claims map[string]*resourceapi.ResourceClaim) []Device {
	var all []Device
	for _, side := range p.Sides() {
		claim := claims[side.Role]
		if claim == nil || claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			others := slices.ContainsFunc(p.Arms(), func(a Arm) bool { return a.has(r.Request) })
			if arm.has(r.Request) || !others {
				all = append(all, Device{Role: side.Role, Request: r.Request, Driver: r.Driver, Pool: r.Pool, Device: r.Device})
			}
		}
	}
	return all
}

// Compare refuses arms that differ in anything but the declared variable, and arms that do
// not differ in that. The same CPUs by two devices would be a difference, and a NIC by
// whatever request is the same NIC.
func Compare(declared Variable, a, b []Device) error {
	for _, variable := range variables {
		ofA, ofB := held(variable, a), held(variable, b)
		same := slices.Equal(ofA, ofB)
		switch {
		case variable == declared && same:
			return fmt.Errorf("%w: both have the same %s (%s), which should differ", ErrUndeclared, variable, listed(ofA))
		case variable != declared && !same:
			return fmt.Errorf("%w: declared is %s, and they differ in %s too: %s in one, %s in the other", ErrUndeclared, declared, variable, listed(ofA), listed(ofB))
		}
	}
	return nil
}

func held(variable Variable, devices []Device) []string {
	var names []string
	for _, d := range devices {
		if d.variable() == variable {
			names = append(names, d.String())
		}
	}
	slices.Sort(names)
	return names
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
