// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/vendorconfig/nvidia"
)

// How a GPU is shared. Shares and Memory are also the capacities that NVIDIA's driver
// publishes, by their bare names.
const (
	Shares      = "shares"
	Memory      = "memory"
	TimeSlicing = "time-slicing"
)

// Attributes of MIG devices.
const (
	attrProfile = slicecodec.DriverGPU + "/profile"
	attrParent  = slicecodec.DriverGPU + "/parentUUID"
)

// mostOfOneGPU is the most MIG devices of one GPU (NVIDIA Multi-Instance GPU User Guide).
const mostOfOneGPU = 7

// migProfile is how NVIDIA names profiles: 1g.10gb, 1g.10gb+me, 1g.24gb-me, 1c.3g.40gb.
var migProfile = regexp.MustCompile(`^([1-9]c\.)?[1-9]g\.[1-9][0-9]*gb([+-][a-z]+(\.[a-z]+)*)?$`)

// gpuShare is how a GPU is shared, and how much of it where that is said.
func (o *Options) gpuShare() (kind, amount string) {
	kind, amount, _ = strings.Cut(o.GPUShare, "=")
	return kind, amount
}

// TakesShares says whether the claim is for a part of a GPU that other claims have parts
// of.
func (o *Options) TakesShares() bool {
	kind, _ := o.gpuShare()
	return kind == Shares || kind == Memory
}

// migRules checks the options for MIG devices.
func (o *Options) migRules() []rule {
	deviceType, known := o.deviceType()
	other := known && deviceType != nvidia.TypeMIG
	return []rule{
		{o.MIGProfile != "" && o.GPUs == 0, fmt.Sprintf("--mig-profile %q is for MIG devices: want --gpus with it, how many", o.MIGProfile)},
		{o.MIGProfile != "" && !migProfile.MatchString(o.MIGProfile), fmt.Sprintf("--mig-profile %q: want a profile as nvidia-smi mig -lgip names it, such as 1g.10gb or 1g.10gb+me", o.MIGProfile)},
		{o.MIGProfile != "" && other, fmt.Sprintf("--mig-profile %q with --gpu-class %s, which has no MIG devices: want %s, or a class of your own", o.MIGProfile, o.Class(), migClass)},
		{o.SameGPU && o.MIGProfile == "" && (other || o.GPUs == 0), "--mig-same-gpu is for MIG devices: want --mig-profile with it"},
		{o.SameGPU && o.parts() > 1, fmt.Sprintf("--mig-same-gpu wants all MIG devices of one GPU, and %d parts are each elsewhere: want one of them", o.parts())},
		{o.SameGPU && o.GPUs > mostOfOneGPU, fmt.Sprintf("--mig-same-gpu with --gpus %d: a GPU has %d MIG devices at most", o.GPUs, mostOfOneGPU)},
	}
}

// shareRules checks what is to be had of a GPU.
func (o *Options) shareRules() []rule {
	if o.GPUShare == "" {
		return nil
	}
	kind, _ := o.gpuShare()
	deviceType, known := o.deviceType()
	wrong := o.wrongAmount()
	return []rule{
		{o.GPUs == 0, fmt.Sprintf("--gpu-share %q is for GPUs: want --gpus with it", o.GPUShare)},
		{wrong != "", fmt.Sprintf("--gpu-share %q: %s", o.GPUShare, wrong)},
		{known && deviceType == "", fmt.Sprintf("--gpu-share %s is what NVIDIA's driver knows, and GPUs of class %s are others: want --gpu-class %s", kind, o.Class(), slicecodec.DriverGPU)},
		{deviceType == nvidia.TypeVFIO, fmt.Sprintf("--gpu-share %s with --gpu-class %s: a GPU that is passed through is not shared", kind, o.Class())},
		{kind == TimeSlicing && deviceType == nvidia.TypeMIG, fmt.Sprintf("--gpu-share %s with MIG devices: time slices are those of whole GPUs: want --gpu-share %s or %s, or whole GPUs", kind, Shares, Memory)},
		// Two parts may be of one device unless an attribute tells devices apart, and
		// MIG devices have none: those that are made on demand have no UUID.
		{o.TakesShares() && deviceType == nvidia.TypeMIG && o.GPUs > 1, fmt.Sprintf("--gpu-share %s with --gpus %d MIG devices: the parts could all be of one, as no attribute tells MIG devices apart: want --gpus 1, or a claim for each", kind, o.GPUs)},
	}
}

// wrongAmount says what is wrong with how much is to be had, and what would be right.
func (o *Options) wrongAmount() string {
	kind, amount := o.gpuShare()
	says := strings.Contains(o.GPUShare, "=")
	switch kind {
	case Shares:
		if n, err := strconv.Atoi(amount); says && (err != nil || n < 1 || n > mostAsked) {
			return "want a number of shares from 1 on, such as " + Shares + "=2"
		}
	case Memory:
		const least = 1 << 20
		if size, err := resource.ParseQuantity(amount); err != nil || size.Value() < least {
			return "want an amount of memory from 1Mi on, such as " + Memory + "=20Gi"
		}
	case TimeSlicing:
		if says && !slices.Contains(nvidia.Intervals, amount) {
			return "want one of " + TimeSlicing + "=" + strings.Join(nvidia.Intervals, ", "+TimeSlicing+"=")
		}
	default:
		return fmt.Sprintf("want %s or such as %s=2, such as %s=20Gi, or %s or such as %s=Long", Shares, Shares, Memory, TimeSlicing, TimeSlicing)
	}
	return ""
}

// gpuCapacity is what is to be had of each GPU, nil for all of it.
func (o *Options) gpuCapacity() *resourceapi.CapacityRequirements {
	if !o.TakesShares() {
		return nil
	}
	kind, amount := o.gpuShare()
	if amount == "" {
		amount = "1"
	}
	return &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
		resourceapi.QualifiedName(kind): resource.MustParse(amount),
	}}
}

// gpusTogether holds MIG devices to one GPU, and parts of GPUs to as many GPUs: the
// scheduler may else take two parts of one for a claim of two.
func (g *generator) gpusTogether() {
	if g.o.SameGPU {
		g.match(attrParent, slices.Clone(g.gpus))
	}
	if g.o.TakesShares() && g.o.GPUs > 1 {
		g.spec.Devices.Constraints = append(g.spec.Devices.Constraints, resourceapi.DeviceConstraint{
			Requests: slices.Clone(g.gpus), DistinctAttribute: ptr.To[resourceapi.FullyQualifiedName](slicecodec.AttrPCIBusID),
		})
	}
}

// configureGPUs writes the parameters for time slices. It names no request: NVIDIA's
// driver gives them to all whole GPUs, and does not find request/alternative where the
// request is named.
func (g *generator) configureGPUs() error {
	kind, interval := g.o.gpuShare()
	if kind != TimeSlicing {
		return nil
	}
	c := nvidia.GPUConfig{APIVersion: nvidia.APIVersion, Kind: nvidia.GPUConfigKind, Sharing: &nvidia.Sharing{Strategy: nvidia.TimeSlicing}}
	if interval != "" {
		c.Sharing.TimeSlicingConfig = &nvidia.TimeSlicingConfig{Interval: &interval}
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("marshal parameters: %w", err)
	}
	g.spec.Devices.Config = append(g.spec.Devices.Config, resourceapi.DeviceClaimConfiguration{
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: nvidia.Driver, Parameters: runtime.RawExtension{Raw: raw},
		}},
	})
	return nil
}
