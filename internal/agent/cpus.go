// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"strings"

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
