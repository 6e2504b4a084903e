// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nvidia

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Feature gates of the driver, all alpha and off by default in v0.5.0.
const (
	gateTimeSlicing = "TimeSlicingSettings"
	gateMPS         = "MPSSupport"
	gateVFIO        = "PassthroughSupport"
)

var backendPolicies = []string{"LegacyOnly", "PreferIommuFD"}

// The fields that more than one kind has.
var (
	sharingPath  = field.NewPath("sharing")
	strategyPath = sharingPath.Child("strategy")
	mpsPath      = sharingPath.Child("mpsConfig")
)

// Mistakes are what the driver refuses, and what its own check crashes on.
func (c *GPUConfig) Mistakes() field.ErrorList {
	s := c.Sharing
	if s == nil {
		return nil
	}
	slicing := sharingPath.Child("timeSlicingConfig")
	errs := checkStrategy(s.Strategy)
	switch {
	case s.TimeSlicingConfig == nil:
	case s.Strategy == MPS:
		errs = append(errs, excluded(slicing, s.Strategy, "mpsConfig"))
	default:
		errs = append(errs, checkInterval(slicing.Child("interval"), s.TimeSlicingConfig.Interval)...)
	}
	if s.MPSConfig != nil && s.Strategy == TimeSlicing {
		return append(errs, excluded(mpsPath, s.Strategy, "timeSlicingConfig"))
	}
	return append(errs, s.MPSConfig.mistakes()...)
}

// Mistakes are what the driver refuses.
func (c *MIGConfig) Mistakes() field.ErrorList {
	if c.Sharing == nil {
		return nil
	}
	errs := checkStrategy(c.Sharing.Strategy)
	if c.Sharing.Strategy == TimeSlicing {
		return errs // the driver does not read mpsConfig then: Warnings has it
	}
	return append(errs, c.Sharing.MPSConfig.mistakes()...)
}

// Mistakes are what the driver refuses.
func (c *VFIOConfig) Mistakes() field.ErrorList {
	if c.IOMMU == nil || c.IOMMU.BackendPolicy == "" || slices.Contains(backendPolicies, c.IOMMU.BackendPolicy) {
		return nil
	}
	return field.ErrorList{field.NotSupported(field.NewPath("iommu", "backendPolicy"), c.IOMMU.BackendPolicy, backendPolicies)}
}

func checkStrategy(strategy string) field.ErrorList {
	switch strategy {
	case TimeSlicing, MPS:
		return nil
	case "":
		return field.ErrorList{field.Required(strategyPath, fmt.Sprintf("want %s or %s, or no sharing", TimeSlicing, MPS))}
	}
	return field.ErrorList{field.NotSupported(strategyPath, strategy, []string{TimeSlicing, MPS})}
}

func excluded(at *field.Path, strategy, instead string) *field.Error {
	return field.Forbidden(at, fmt.Sprintf("not with strategy %s: leave it out, or want %s", strategy, instead))
}

func checkInterval(at *field.Path, interval *string) field.ErrorList {
	switch {
	case interval == nil:
		return field.ErrorList{field.Required(at, fmt.Sprintf("the driver's check crashes on a timeSlicingConfig without it: want one of %s, or no timeSlicingConfig", strings.Join(Intervals, ", ")))}
	case !slices.Contains(Intervals, *interval):
		return field.ErrorList{field.NotSupported(at, *interval, Intervals)}
	}
	return nil
}

func (c *MPSConfig) mistakes() field.ErrorList {
	if c == nil {
		return nil
	}
	var errs field.ErrorList
	if p := c.DefaultActiveThreadPercentage; p != nil && (*p < 0 || *p > 100) {
		errs = append(errs, field.Invalid(mpsPath.Child("defaultActiveThreadPercentage"), *p, "want 0-100"))
	}
	if c.DefaultPinnedDeviceMemoryLimit != nil {
		errs = append(errs, checkLimit(mpsPath.Child("defaultPinnedDeviceMemoryLimit"), *c.DefaultPinnedDeviceMemoryLimit)...)
	}
	limits := mpsPath.Child("defaultPerDevicePinnedMemoryLimit")
	for _, key := range slices.Sorted(maps.Keys(c.DefaultPerDevicePinnedMemoryLimit)) {
		errs = append(errs, checkDevice(limits.Key(key), key)...)
		errs = append(errs, checkLimit(limits.Key(key), c.DefaultPerDevicePinnedMemoryLimit[key])...)
	}
	return errs
}

// checkLimit wants a limit that is not zero in the unit that the daemon is told.
func checkLimit(at *field.Path, limit resource.Quantity) field.ErrorList {
	const unit = 1 << 20
	if limit.Value() >= unit {
		return nil
	}
	return field.ErrorList{field.Invalid(at, limit.String(), "want 1Mi or more, the driver counts whole MiB")}
}

// checkDevice wants a device's place among those of the claim, from 0 on, or a UUID.
func checkDevice(at *field.Path, key string) field.ErrorList {
	if n, err := strconv.Atoi(key); err == nil && n >= 0 || strings.HasPrefix(key, "GPU-") || strings.HasPrefix(key, "MIG-") {
		return nil
	}
	return field.ErrorList{field.Invalid(at, key, "names no device: want its place in the claim, such as 0, or its UUID, such as GPU-1d2e...")}
}

// Warnings are the feature gates that it takes.
func (c *GPUConfig) Warnings() field.ErrorList {
	if c.Sharing == nil {
		return nil
	}
	return gatesOf(c.Sharing.Strategy)
}

// Warnings are the feature gates that it takes, and what has no effect.
func (c *MIGConfig) Warnings() field.ErrorList {
	if c.Sharing == nil {
		return nil
	}
	warnings := gatesOf(c.Sharing.Strategy)
	if c.Sharing.Strategy != TimeSlicing {
		return warnings
	}
	warnings = append(warnings, warning(strategyPath, TimeSlicing, "has no effect on MIG devices, as time slices are those of whole GPUs: want "+MPS+", or no sharing"))
	if c.Sharing.MPSConfig != nil {
		warnings = append(warnings, warning(mpsPath, "", "is not read with strategy "+TimeSlicing+": leave it out, or want strategy "+MPS))
	}
	return warnings
}

// Warnings are the feature gate that it takes.
func (c *VFIOConfig) Warnings() field.ErrorList {
	return field.ErrorList{warning(field.NewPath("kind"), VFIOConfigKind, "is for devices that the driver has with its feature gate "+gateVFIO+" only (alpha, off by default)")}
}

func gatesOf(strategy string) field.ErrorList {
	gate, more := gateTimeSlicing, ""
	switch strategy {
	case TimeSlicing:
	case MPS:
		gate, more = gateMPS, ", and neither DynamicMIG nor ConsumableShares"
	default:
		return nil // which is a mistake
	}
	return field.ErrorList{warning(strategyPath, strategy, fmt.Sprintf(
		"wants the driver's feature gate %s (alpha, off by default)%s: without it the driver refuses the claim, and its pods do not start", gate, more))}
}

// warning has the value that it is about, "" for none.
func warning(at *field.Path, value, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeForbidden, Field: at.String(), BadValue: value, Detail: detail}
}
