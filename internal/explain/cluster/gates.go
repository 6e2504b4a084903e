// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/dynamic-resource-allocation/structured"
)

// Gates are the feature gates of the scheduler that decide what its allocator
// does.
type Gates = structured.Features

// Newest is the minor version of Kubernetes 1 whose rules are assumed where
// nothing else is known: that of the allocator this program is built with.
const Newest = 37

// GatesOf are those that are on by default in Kubernetes 1.minor
// (pkg/features/kube_features.go).
func GatesOf(minor int) Gates {
	g := Gates{AdminAccess: minor >= 34, PrioritizedList: minor >= 34}
	if minor >= 36 {
		g.DeviceTaints, g.PartitionableDevices, g.ConsumableCapacity, g.DeviceBindingAndStatus = true, true, true, true
	}
	g.FractionalCapacityRange = minor >= 37
	return g
}

// Names of feature gates.
const (
	GateAdminAccess         = "DRAAdminAccess"
	GateCompatibilityGroups = "DRADeviceCompatibilityGroups"
	GateConsumableCapacity  = "DRAConsumableCapacity"
	GateDerivedAttributes   = "DRADerivedAttributes"
	GateBindingConditions   = "DRADeviceBindingConditions"
	GateTaints              = "DRADeviceTaints"
	GateListAttributes      = "DRAListTypeAttributes"
	GateNodeOperations      = "DRAOptionalNodeOperations"
	GatePartitionable       = "DRAPartitionableDevices"
	GatePrioritizedList     = "DRAPrioritizedList"
	gateFractionalRange     = "DRAFractionalCapacityRange"
)

// byName finds a gate's switch.
func byName(g *Gates) map[string]*bool {
	return map[string]*bool{
		GateAdminAccess: &g.AdminAccess, GateCompatibilityGroups: &g.CompatibilityGroups,
		GateConsumableCapacity: &g.ConsumableCapacity, GateDerivedAttributes: &g.DerivedAttributes,
		GateBindingConditions: &g.DeviceBindingAndStatus, GateTaints: &g.DeviceTaints,
		gateFractionalRange: &g.FractionalCapacityRange, GateListAttributes: &g.ListTypeAttributes,
		GateNodeOperations: &g.OptionalNodeOperations, GatePartitionable: &g.PartitionableDevices,
		GatePrioritizedList: &g.PrioritizedList,
	}
}

// SetGates switches gates as --feature-gates of a Kubernetes component does:
// "Name=true,Other=false". In 1.36 the scheduler does not tell its allocator of
// DRAListTypeAttributes (AllocatorFeatures), so there that one changes nothing.
func SetGates(g Gates, minor int, text string) (Gates, error) {
	switches := byName(&g)
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		on, err := strconv.ParseBool(value)
		if err != nil {
			return g, fmt.Errorf("feature gate %q: want NAME=true or NAME=false", pair)
		}
		gate := switches[name]
		if gate == nil {
			return g, fmt.Errorf("feature gate %q: want one of %s", name, strings.Join(slices.Sorted(maps.Keys(switches)), ", "))
		}
		*gate = on
	}
	if minor <= 36 {
		g.ListTypeAttributes = false
	}
	return g, nil
}

// KnowsConsumable says whether the allocator has heard of distinctAttribute and of
// requests for capacities, which gates can then refuse: the oldest of its variants
// has not, which is used while nothing newer is on. It takes the first for a
// constraint of no kind, and passes over the second.
func KnowsConsumable(g Gates) bool {
	return g.ConsumableCapacity || g.DeviceBindingAndStatus || g.FractionalCapacityRange || g.ListTypeAttributes ||
		g.OptionalNodeOperations || g.DerivedAttributes || g.CompatibilityGroups
}
