// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nvidia reads the opaque parameters that NVIDIA's GPU driver takes
// (dra-driver-nvidia-gpu v0.5.0, driver gpu.nvidia.com, resource.nvidia.com/v1beta1), and
// says what that driver would refuse. It merges nothing: that driver takes the last
// configuration that is for a device, and no other.
package nvidia

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"plumbline.dev/plumbline/internal/strictjson"
)

// Driver is the name under which the driver publishes devices and reads parameters, and
// APIVersion the version that it reads.
const (
	Driver     = "gpu.nvidia.com"
	APIVersion = "resource.nvidia.com/v1beta1"
)

// Kinds of parameters.
const (
	GPUConfigKind  = "GpuConfig"
	MIGConfigKind  = "MigDeviceConfig"
	VFIOConfigKind = "VfioDeviceConfig"
)

// Types of devices, as the attribute type has them.
const (
	TypeGPU  = "gpu"
	TypeMIG  = "mig"
	TypeVFIO = "vfio"
)

// Sharing strategies.
const (
	TimeSlicing = "TimeSlicing"
	MPS         = "MPS"
)

// Intervals of time slices.
var Intervals = []string{"Default", "Short", "Medium", "Long"}

// Config is one object of parameters.
type Config interface {
	// Header is its apiVersion and kind.
	Header() Header
	// DeviceType is the type of the devices that it is for.
	DeviceType() string
	// Mistakes are what the driver refuses, whatever its feature gates.
	Mistakes() field.ErrorList
	// Warnings are what depends on how the driver is run, and what has no effect.
	Warnings() field.ErrorList
}

// Header is what all parameters begin with. The driver wants both.
type Header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// GPUConfig is for whole GPUs.
type GPUConfig struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Sharing    *Sharing `json:"sharing,omitempty"`
}

// Sharing is how containers and pods that have one claim share its GPUs.
type Sharing struct {
	Strategy          string             `json:"strategy"`
	TimeSlicingConfig *TimeSlicingConfig `json:"timeSlicingConfig,omitempty"`
	MPSConfig         *MPSConfig         `json:"mpsConfig,omitempty"`
}

// TimeSlicingConfig says how long a process computes before the next one does.
type TimeSlicingConfig struct {
	Interval *string `json:"interval,omitempty"`
}

// MPSConfig is for the daemon of NVIDIA's Multi-Process Service.
type MPSConfig struct {
	DefaultActiveThreadPercentage  *int64             `json:"defaultActiveThreadPercentage,omitempty"`
	DefaultPinnedDeviceMemoryLimit *resource.Quantity `json:"defaultPinnedDeviceMemoryLimit,omitempty"`
	// DefaultPerDevicePinnedMemoryLimit is by the device's place in the claim, or by its
	// UUID.
	DefaultPerDevicePinnedMemoryLimit map[string]resource.Quantity `json:"defaultPerDevicePinnedMemoryLimit,omitempty"`
	MultiUser                         *bool                        `json:"multiUser,omitempty"`
}

// MIGConfig is for MIG devices.
type MIGConfig struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Sharing    *MIGSharing `json:"sharing,omitempty"`
}

// MIGSharing is Sharing of MIG devices, which have no time slices of their own.
type MIGSharing struct {
	Strategy  string     `json:"strategy"`
	MPSConfig *MPSConfig `json:"mpsConfig,omitempty"`
}

// VFIOConfig is for GPUs that are passed through to virtual machines.
type VFIOConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	IOMMU      *IOMMU `json:"iommu,omitempty"`
}

// IOMMU says by which interface of the kernel such a GPU is passed through.
type IOMMU struct {
	// BackendPolicy may be empty, for LegacyOnly.
	BackendPolicy   string `json:"backendPolicy,omitempty"`
	EnableAPIDevice *bool  `json:"enableAPIDevice,omitempty"`
}

// Decode reads parameters as strictly as the driver does: an unknown or repeated field is
// an error, and so are another version, another kind, or none. The error is an aggregate
// of *field.Error unless the text is no JSON. Values are checked by Mistakes.
func Decode(text []byte) (Config, error) {
	var c Config
	switch kindOf(text) {
	case MIGConfigKind:
		c = &MIGConfig{}
	case VFIOConfigKind:
		c = &VFIOConfig{}
	case GPUConfigKind:
		c = &GPUConfig{}
	default:
		return nil, unknownKind(text)
	}
	errs, err := fieldErrors(strictjson.Decode(text, c))
	if err != nil {
		return nil, err
	}
	if wrong := checkVersion(c.Header().APIVersion); wrong != nil {
		errs = append(errs, wrong)
	}
	if len(errs) > 0 {
		hint(c, errs)
		return nil, errs.ToAggregate()
	}
	return c, nil
}

// kindOf is the kind, "" where none can be read.
func kindOf(text []byte) string {
	var document map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts(text, &document) != nil {
		return ""
	}
	kind, _ := document["kind"].(string)
	return kind
}

// unknownKind says what is wrong with parameters of no kind of ours; of their other fields
// nothing is known.
func unknownKind(text []byte) error {
	var document map[string]any
	if err := strictjson.Decode(text, &document); err != nil {
		return err
	}
	kinds := []string{GPUConfigKind, MIGConfigKind, VFIOConfigKind}
	at := field.NewPath("kind")
	kind, isText := document["kind"].(string)
	version, _ := document["apiVersion"].(string)
	var errs field.ErrorList
	if isText && kind != "" {
		errs = append(errs, field.NotSupported(at, kind, kinds))
	} else {
		errs = append(errs, field.Required(at, "the driver takes no parameters without it: want one of "+strings.Join(kinds, ", ")))
	}
	if e := checkVersion(version); e != nil {
		errs = append(errs, e)
	}
	return errs.ToAggregate()
}

func checkVersion(version string) *field.Error {
	at := field.NewPath("apiVersion")
	switch version {
	case APIVersion:
		return nil
	case "":
		return field.Required(at, "the driver takes no parameters without it: want "+APIVersion)
	}
	return field.NotSupported(at, version, []string{APIVersion})
}

// fieldErrors are the mistakes of fields, or else the error itself.
func fieldErrors(err error) (field.ErrorList, error) {
	var several utilerrors.Aggregate
	if !errors.As(err, &several) {
		return nil, err
	}
	var all field.ErrorList
	for _, err := range several.Errors() {
		var e *field.Error
		if !errors.As(err, &e) {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// hint says of a field that another kind has why this one has not.
func hint(c Config, errs field.ErrorList) {
	for _, e := range errs {
		if c.DeviceType() == TypeMIG && e.Field == "sharing.timeSlicingConfig" && e.Type == field.ErrorTypeForbidden {
			e.Detail = "no such field of " + MIGConfigKind + ", as time slices are those of whole GPUs: leave it out, or want " + GPUConfigKind + " and a whole GPU"
		}
	}
}

// Header is its apiVersion and kind.
func (c *GPUConfig) Header() Header { return Header{c.APIVersion, c.Kind} }

// Header is its apiVersion and kind.
func (c *MIGConfig) Header() Header { return Header{c.APIVersion, c.Kind} }

// Header is its apiVersion and kind.
func (c *VFIOConfig) Header() Header { return Header{c.APIVersion, c.Kind} }

// DeviceType is TypeGPU.
func (c *GPUConfig) DeviceType() string { return TypeGPU }

// DeviceType is TypeMIG.
func (c *MIGConfig) DeviceType() string { return TypeMIG }

// DeviceType is TypeVFIO.
func (c *VFIOConfig) DeviceType() string { return TypeVFIO }

// KindFor is the kind of parameters for devices of a type, "" for a type that has none.
func KindFor(deviceType string) string {
	return map[string]string{TypeGPU: GPUConfigKind, TypeMIG: MIGConfigKind, TypeVFIO: VFIOConfigKind}[deviceType]
}
