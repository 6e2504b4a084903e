// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"fmt"
	"strings"

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
		for _, m := range d.Edits.Mounts {
			edits.Mounts = append(edits.Mounts, &specs.Mount{HostPath: m.Source, ContainerPath: m.Destination, Options: []string{"ro", "bind", "nosuid", "nodev"}})
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

// kind is "vendor/class" of a driver's CDI devices. Those of CPUs and GPUs are
// the ones their drivers had before us; others read them.
func kind(driverName string) (vendor, class string) {
	switch driverName {
	case "dra.cpu":
		return "dra.k8s.io", "cpu"
	case "gpu.nvidia.com":
		return "k8s.gpu.nvidia.com", "claim"
	}
	return driverName, "claim"
}

// name is the CDI device's name within its kind: unique per claim and device.
func name(r driver.Record, i int) string {
	uid := string(r.Claim.UID)
	if r.Driver == "dra.cpu" {
		if len(r.Devices) == 1 {
			return "claim-" + uid
		}
		return fmt.Sprintf("claim-%s-%d", uid, i)
	}
	device := r.Devices[i].Device
	for _, earlier := range r.Devices[:i] {
		if earlier.Device == device { // several shares of one device
			return fmt.Sprintf("%s-%s-%d", uid, device, i)
		}
	}
	return uid + "-" + device
}

// ID is the full CDI device ID of the record's device i, such as
// "dra.net/claim=<uid>-pci-0000-91-00-0".
func ID(r driver.Record, i int) string {
	vendor, class := kind(r.Driver)
	return vendor + "/" + class + "=" + name(r, i)
}

const markerPrefix = "PLUMBLINE_CLAIM_"

// Marker is the environment variable by which a container shows that it got the
// record's device i: PLUMBLINE_CLAIM_<claimUID>_<i>=<driver>/<device>.
func Marker(r driver.Record, i int) string {
	return fmt.Sprintf(markerPrefix+"%s_%d=%s/%s", r.Claim.UID, i, r.Driver, r.Devices[i].Device)
}

// Ours says whether a variable of a container's environment is a Marker, or what
// the CPU driver tells a container.
func Ours(env string) bool {
	return strings.HasPrefix(env, markerPrefix) || strings.HasPrefix(env, "DRA_CPUSET_")
}
