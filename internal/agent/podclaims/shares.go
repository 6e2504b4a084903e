// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podclaims

import (
	"fmt"
	"slices"

	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
)

// Share is a container's part of a record.
type Share struct {
	Record driver.Record
	// Devices are indexes of the record's.
	Devices []int
	// PodLevel: no container names the claim, so every one has all of it, and
	// the kubelet has injected nothing.
	PodLevel bool
}

// Part is the record reduced to the container's devices.
func (s Share) Part() driver.Record {
	r := s.Record
	r.Devices = nil
	for _, i := range s.Devices {
		r.Devices = append(r.Devices, s.Record.Devices[i])
	}
	return r
}

// SharesOf says what of the records a container has: the devices that it names,
// or all of a claim that no container of the pod names.
func SharesOf(s runtimestate.Sandbox, c runtimestate.Container, records []driver.Record, facts *kube.Pod) ([]Share, error) {
	var shares []Share
	for _, r := range records {
		named := namedDevices(r, c)
		mine := Holds(r, s.UID)
		switch {
		case len(named) > 0 && !mine:
			return nil, refuseSecondPod(s, r)
		case len(named) > 0:
			shares = append(shares, Share{Record: r, Devices: named})
		case !mine:
		case facts == nil:
			return nil, fmt.Errorf("pod %s holds claim %s of %s, and the API watch has not shown yet which of its containers name it", s, r.Claim, r.Driver)
		case !facts.Named[r.Claim.Name] && slices.Contains(facts.Claims, r.Claim.Name):
			all := make([]int, len(r.Devices))
			for i := range all {
				all[i] = i
			}
			shares = append(shares, Share{Record: r, Devices: all, PodLevel: true})
		}
	}
	return shares, nil
}

// namedDevices are the devices that the kubelet injected. Runtimes that do not
// tell a container's CDI devices show their environment all the same.
func namedDevices(r driver.Record, c runtimestate.Container) []int {
	var named []int
	for i := range r.Devices {
		if slices.Contains(c.CDI, cdi.ID(r, i)) || slices.Contains(c.Env, cdi.Marker(r, i)) {
			named = append(named, i)
		}
	}
	return named
}
