// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"fmt"
	"strings"

	"plumbline.dev/plumbline/internal/driver"
)

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
