// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimcheck

import (
	"encoding/json"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/cpuset"
)

// Aligned is the tutorial's aligned pod: GPU, NIC and CPUs on one NUMA node, GPU
// and NIC below one root.
func Aligned(f Observation) Result {
	v := Result{What: "aligned", Why: placesOf(f)}
	v.OK = len(f.GPUs) == 1 && len(f.NICs) == 1 && f.GPUs[0].Root == f.NICs[0].Root &&
		f.NUMANodes().Equals(deviceNodes(f)) && f.NUMANodes().Size() == 1
	return v
}

// Misaligned is the tutorial's counter-example: the CPUs on the other socket.
func Misaligned(f Observation) Result {
	v := Result{What: "misaligned on purpose", Why: placesOf(f)}
	v.OK = len(f.GPUs) == 1 && len(f.NICs) == 1 && f.GPUs[0].Root == f.NICs[0].Root &&
		f.NUMANodes().Size() == 1 && f.NUMANodes().Intersection(deviceNodes(f)).IsEmpty()
	return v
}

func deviceNodes(f Observation) cpuset.CPUSet {
	var nodes []int
	for _, d := range append(append([]Device{}, f.NICs...), f.GPUs...) {
		nodes = append(nodes, d.NUMANode)
	}
	return cpuset.New(nodes...)
}

func placesOf(f Observation) string {
	return fmt.Sprintf("devices on NUMA node %s, CPUs on %s", deviceNodes(f), f.NUMANodes())
}

// Status compares the claim's status.devices with what is in the pod:
// that is where people look an address up.
func Status(claim *resourceapi.ResourceClaim, f Observation) Result {
	v := Result{What: "status.devices names the interface"}
	for _, d := range claim.Status.Devices {
		if d.NetworkData == nil {
			continue
		}
		v.Why = fmt.Sprintf("%s %s", d.NetworkData.InterfaceName, strings.Join(d.NetworkData.IPs, ","))
		for _, n := range f.NICs {
			v.OK = v.OK || n.Name == d.NetworkData.InterfaceName
		}
	}
	if v.Why == "" {
		text, err := json.Marshal(claim.Status.Devices)
		v.Why = fmt.Sprintf("no networkData in %s%v", text, err)
	}
	return v
}
