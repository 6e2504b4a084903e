// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"fmt"

	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"plumbline.dev/plumbline/internal/driver"
)

// Spec is the CDI spec of a record: one CDI device for each device, and the hooks
// of all of them, which a container gets once however many devices it has.
func Spec(r driver.Record, hooks ...driver.Hook) (*specs.Spec, error) {
	vendor, class := kind(r.Driver)
	s := &specs.Spec{Kind: vendor + "/" + class, ContainerEdits: specs.ContainerEdits{Hooks: hooksOf(hooks)}}
	for i, d := range r.Devices {
		edits := specs.ContainerEdits{Env: append([]string{Marker(r, i)}, d.Edits.Env...), Hooks: hooksOf(d.Edits.Hooks)}
		for _, n := range d.Edits.DeviceNodes {
			edits.DeviceNodes = append(edits.DeviceNodes, &specs.DeviceNode{Path: n.Path, Permissions: n.Permissions})
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

func hooksOf(list []driver.Hook) []*specs.Hook {
	var out []*specs.Hook
	for _, h := range list {
		hook := &specs.Hook{HookName: h.Name, Path: h.Path, Args: h.Args, Env: h.Env}
		if h.TimeoutSeconds > 0 {
			hook.Timeout = &h.TimeoutSeconds
		}
		out = append(out, hook)
	}
	return out
}
