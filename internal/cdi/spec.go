// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"fmt"

	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"plumbline.dev/plumbline/internal/driver"
)

// Spec is the CDI spec of a record: one CDI device for each device.
func Spec(r driver.Record) (*specs.Spec, error) {
	vendor, class := kind(r.Driver)
	s := &specs.Spec{Kind: vendor + "/" + class}
	for i, d := range r.Devices {
		edits := specs.ContainerEdits{Env: append([]string{Marker(r, i)}, d.Edits.Env...)}
		for _, n := range d.Edits.DeviceNodes {
			edits.DeviceNodes = append(edits.DeviceNodes, &specs.DeviceNode{Path: n.Path, Permissions: n.Permissions})
		}
		for _, h := range d.Edits.Hooks {
			edits.Hooks = append(edits.Hooks, hookOf(h))
		}
		s.Devices = append(s.Devices, specs.Device{Name: name(r, i), ContainerEdits: edits})
	}
	version, err := cdilib.MinimumRequiredVersion(s)
	if err != nil {
		return nil, fmt.Errorf("CDI spec of claim %s: %w", r.Claim, err)
	}
	s.Version = version
	return s, nil
}

func hookOf(h driver.Hook) *specs.Hook {
	out := &specs.Hook{HookName: h.Name, Path: h.Path, Args: h.Args, Env: h.Env}
	if h.TimeoutSeconds > 0 {
		out.Timeout = &h.TimeoutSeconds
	}
	return out
}
