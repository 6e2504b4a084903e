// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/cpuset"
)

// CPUsOf are the CPUs that the driver says in the claim's status it gave for a
// result; empty where it says nothing that can be read.
func CPUsOf(claim *resourceapi.ResourceClaim, r resourceapi.DeviceRequestAllocationResult) cpuset.CPUSet {
	for _, d := range claim.Status.Devices {
		if d.Driver != r.Driver || d.Pool != r.Pool || d.Device != r.Device || d.Data == nil {
			continue
		}
		if r.ShareID != nil && (d.ShareID == nil || *d.ShareID != string(*r.ShareID)) {
			continue
		}
		var data struct {
			CPUs string `json:"cpus"`
		}
		if json.Unmarshal(d.Data.Raw, &data) != nil {
			continue
		}
		if cpus, err := ParseCPUs(data.CPUs); err == nil {
			return cpus
		}
	}
	return cpuset.New()
}
