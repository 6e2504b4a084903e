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

// Gates are the feature gates of the scheduler that decide what its allocator
// does.
type Gates = structured.Features

// NewestMinor is the minor version of Kubernetes 1 whose rules are assumed where
// nothing else is known: that of the allocator this program is built with.
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

// never is the minor version since which a gate is on that is on in none yet.
const never = 1 << 30

// gates has every gate that the allocator hears of: since which Kubernetes 1.minor
// it is on by default (pkg/features/kube_features.go), and the field of Gates. The
// binding conditions need DRAResourceClaimDeviceStatus too, which is on since 1.33.
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

// GateNames are the names of all gates that the allocator hears of.
func GateNames() []string { return slices.Sorted(maps.Keys(gates)) }

// OverrideGates switches gates as --feature-gates of a Kubernetes component does:
// "Name=true,Other=false". In 1.36 the scheduler does not tell its allocator of
// DRAListTypeAttributes (AllocatorFeatures), so there that one changes nothing.
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

// KnowsConsumableCapacity says whether the allocator has heard of distinctAttribute and of
// requests for capacities, which gates can then refuse: the oldest of its variants
// has not, which is used while nothing newer is on. It takes the first for a
// constraint of no kind, and passes over the second.
func KnowsConsumableCapacity(g Gates) bool {
	return g.ConsumableCapacity || g.DeviceBindingAndStatus || g.FractionalCapacityRange || g.ListTypeAttributes ||
		g.OptionalNodeOperations || g.DerivedAttributes || g.CompatibilityGroups
}
