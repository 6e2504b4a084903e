// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Describe says which CPUs the claim has of each device, and how many; nothing of a device
// that it only looks at.
func (d Driver) Describe(r driver.Record) ([]map[string]model.Attribute, error) {
	plans, err := plansOf(r)
	if err != nil {
		return nil, err
	}
	all := make([]map[string]model.Attribute, len(plans))
	for i, p := range plans {
		cpus, err := cpuset.Parse(p.CPUs)
		if err != nil {
			return nil, fmt.Errorf("record of claim %s, device %s: %w", r.Claim, r.Devices[i].Device, err)
		}
		if cpus.IsEmpty() {
			continue
		}
		all[i] = map[string]model.Attribute{
			slicecodec.AttrAllocatedCPUs: model.NumberAttribute(int64(cpus.Size())),
			slicecodec.AttrCPUs:          model.TextAttribute(cpus.String()),
		}
	}
	return all, nil
}
