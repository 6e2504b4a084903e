// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/dynamic-resource-allocation/structured"
)

// Gates are the feature gates that the scheduler passes to its allocator.
type Gates = structured.Features

// NewestMinor is the minor version of Kubernetes 1 that is assumed where it is unknown:
// that of the allocator this program is built with.
const NewestMinor = 37

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

// never is the minor version for a gate that is off by default in all versions.
const never = 1 << 30

// gates has every gate of Gates: since which Kubernetes 1.minor it is on by default
// (pkg/features/kube_features.go), and its field. The binding conditions need
// DRAResourceClaimDeviceStatus too, which is on since 1.33.
var gates = map[string]struct {
	since int
	field func(*Gates) *bool
}{
	GateAdminAccess:         {34, func(g *Gates) *bool { return &g.AdminAccess }},
	GatePrioritizedList:     {34, func(g *Gates) *bool { return &g.PrioritizedList }},
	GateTaints:              {36, func(g *Gates) *bool { return &g.DeviceTaints }},
	GatePartitionable:       {36, func(g *Gates) *bool { return &g.PartitionableDevices }},
	GateConsumableCapacity:  {36, func(g *Gates) *bool { return &g.ConsumableCapacity }},
	GateBindingConditions:   {36, func(g *Gates) *bool { return &g.DeviceBindingAndStatus }},
	gateFractionalRange:     {37, func(g *Gates) *bool { return &g.FractionalCapacityRange }},
	GateCompatibilityGroups: {never, func(g *Gates) *bool { return &g.CompatibilityGroups }},
	GateDerivedAttributes:   {never, func(g *Gates) *bool { return &g.DerivedAttributes }},
	GateListAttributes:      {never, func(g *Gates) *bool { return &g.ListTypeAttributes }},
	GateNodeOperations:      {never, func(g *Gates) *bool { return &g.OptionalNodeOperations }},
}

// DefaultGates are those that are on by default in Kubernetes 1.minor.
func DefaultGates(minor int) Gates {
	var g Gates
	for _, gate := range gates {
		*gate.field(&g) = minor >= gate.since
	}
	return g
}

// GateNames are the names of all gates of Gates.
func GateNames() []string { return slices.Sorted(maps.Keys(gates)) }

// OverrideGates switches gates as --feature-gates of a Kubernetes component does:
// "Name=true,Other=false". In 1.36 the scheduler does not pass DRAListTypeAttributes to
// its allocator (AllocatorFeatures), so that it has no effect there.
func OverrideGates(g Gates, minor int, text string) (Gates, error) {
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		on, err := strconv.ParseBool(value)
		if err != nil {
			return g, fmt.Errorf("feature gate %q: want NAME=true or NAME=false", pair)
		}
		gate, known := gates[name]
		if !known {
			return g, fmt.Errorf("feature gate %q: want one of %s", name, strings.Join(GateNames(), ", "))
		}
		*gate.field(&g) = on
	}
	if minor <= 36 {
		g.ListTypeAttributes = false
	}
	return g, nil
}

// KnowsConsumableCapacity says whether the allocator implements distinctAttribute and
// requests for capacities, and refuses them where gates are off. The oldest of its
// variants, which is used while no newer gate is on, does not: it fails on the first as
// an unknown constraint, and ignores the second.
func KnowsConsumableCapacity(g Gates) bool {
	return g.ConsumableCapacity || g.DeviceBindingAndStatus || g.FractionalCapacityRange || g.ListTypeAttributes ||
		g.OptionalNodeOperations || g.DerivedAttributes || g.CompatibilityGroups
}
