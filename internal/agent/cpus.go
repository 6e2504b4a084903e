// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Words of --cpu-device-mode and --group-by, which are those of the driver that
// ours succeeds.
const (
	// CPUsGrouped lets claims say how many CPUs of a group they want.
	CPUsGrouped = "grouped"
	// CPUsIndividual makes every CPU a device.
	CPUsIndividual = "individual"
	// CPUsByNUMANode is a word of --group-by.
	CPUsByNUMANode = string(slicecodec.PerNUMANode)
)

// ParseCPUMode reads --cpu-device-mode and --group-by.
func ParseCPUMode(mode, groupBy string) (slicecodec.CPUMode, error) {
	var group slicecodec.CPUMode
	var groups []string
	for _, m := range []slicecodec.CPUMode{slicecodec.PerNUMANode, slicecodec.PerSocket, slicecodec.WholeMachine} {
		groups = append(groups, string(m))
		if groupBy == string(m) {
			group = m
		}
	}
	if group == "" {
		return "", fmt.Errorf("--group-by=%q: want %s", groupBy, strings.Join(groups, ", "))
	}
	switch mode {
	case CPUsGrouped:
		return group, nil
	case CPUsIndividual:
		return slicecodec.SingleCPUs, nil
	}
	return "", fmt.Errorf("--cpu-device-mode=%q: want %s or %s", mode, CPUsGrouped, CPUsIndividual)
}

// besides returns what adds to a claim of CPUs the NICs and GPUs that its pods
// hold by other claims: the kubelet prepares a pod's claims one driver after the
// other, in no order, so that it may be none of them. Where a device is one NUMA
// node anyway, nobody looks.
func besides(mode slicecodec.CPUMode, records *journal.Journal) func(driver.Claim) driver.Claim {
	return func(c driver.Claim) driver.Claim {
		if mode != slicecodec.PerSocket && mode != slicecodec.WholeMachine {
			return c
		}
		for _, name := range []string{slicecodec.DriverNet, slicecodec.DriverGPU} {
			held, _, err := records.List(name)
			if err != nil {
				continue // it is only about what is better
			}
			for _, r := range held {
				if !slices.ContainsFunc(r.Pods, func(p driver.PodRef) bool { return slices.Contains(c.Pods, p) }) {
					continue
				}
				for _, d := range r.Devices {
					c.Beside = append(c.Beside, driver.DeviceRef{Driver: name, Device: d.Device})
				}
			}
		}
		return c
	}
}
