// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"cmp"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"plumbline.dev/plumbline/internal/model"
)

// ClaimRef names a ResourceClaim. The UID is the identity: a deleted and
// recreated claim has the same name.
type ClaimRef struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
}

// String is "namespace/name".
func (c ClaimRef) String() string { return c.Namespace + "/" + c.Name }

// PodRef names a pod that a claim is reserved for.
type PodRef struct {
	UID  types.UID `json:"uid"`
	Name string    `json:"name"`
}

// Claim is an allocated claim, reduced to one driver's part of it.
type Claim struct {
	ClaimRef
	// Pods are the pods in status.reservedFor.
	Pods []PodRef
	// Devices are the allocation results of this driver on this node, in the
	// order of the allocation.
	Devices []Allocation
	// Beside are devices of other drivers that its pods hold by other claims, of
	// those claims that are prepared.
	Beside []DeviceRef
	// Nodes are the NUMA nodes of its devices that other drivers serve, where their
	// ResourceSlices say so.
	Nodes map[DeviceRef]int
	// GPUs are the claim's GPUs, of whatever driver, where ResourceSlices say their
	// addresses; nil where nobody looked.
	GPUs []model.PCIAddress
	// Before are the records of this driver from before the node was started anew, of this
	// claim and of others that have not ended. They hold no device, for the kernel has taken
	// all back; what is a claim's until it ends, such as an address, is theirs.
	Before []Record
	// Object is the claim as read from the API server; nil when it was not read.
	Object *resourceapi.ResourceClaim
}

// DeviceRef names a device of this node.
type DeviceRef struct{ Driver, Device string }

// Allocation is one allocation result.
type Allocation struct {
	// Request is the request's name, or "request/subrequest".
	Request string
	Pool    string
	Device  string
	// ShareID identifies one of several shares of a device; nil for a whole device.
	ShareID *types.UID
	// AdminAccess results look at a device and never take it.
	AdminAccess bool
	// Consumed is consumedCapacity, authoritative over what was requested.
	Consumed map[string]resource.Quantity
	// Configs are the opaque parameters that apply, weakest first: what the
	// cloud says of the device, its profile, device class, then claim.
	Configs []Config
}

// Sources of layers of parameters that come with a claim: its class, which is an
// administrator's, and the claim itself.
const (
	SourceClass = "class"
	SourceClaim = "claim"
)

// Config is one layer of opaque parameters as written.
type Config struct {
	// Source says where the layer comes from: "cloud", "profile", SourceClass or
	// SourceClaim.
	Source string
	// Raw is the JSON text of the parameters.
	Raw []byte
}

// DecodeLayers decodes the layers of one device's parameters, in their order.
func DecodeLayers[T any](layers []Config, decode func(raw []byte) (T, error)) ([]T, error) {
	decoded := make([]T, len(layers))
	for i, l := range layers {
		var err error
		if decoded[i], err = decode(l.Raw); err != nil {
			return nil, fmt.Errorf("parameters of the %s: %w", l.Source, err)
		}
	}
	return decoded, nil
}

// FromAPI reduces an allocated claim to what one driver was given on this node,
// whose pool bears the node's name.
func FromAPI(c *resourceapi.ResourceClaim, driverName, pool string) Claim {
	out := Claim{ClaimRef: ClaimRef{UID: c.UID, Namespace: c.Namespace, Name: c.Name}, Object: c}
	for _, consumer := range c.Status.ReservedFor {
		if consumer.APIGroup == "" && consumer.Resource == "pods" {
			out.Pods = append(out.Pods, PodRef{UID: consumer.UID, Name: consumer.Name})
		}
	}
	if c.Status.Allocation == nil {
		return out
	}
	devices := c.Status.Allocation.Devices
	for _, r := range devices.Results {
		if r.Driver != driverName || r.Pool != pool {
			continue
		}
		a := Allocation{
			Request: r.Request, Pool: r.Pool, Device: r.Device, ShareID: r.ShareID,
			AdminAccess: r.AdminAccess != nil && *r.AdminAccess,
			Configs:     configsFor(devices.Config, driverName, r),
		}
		for name, quantity := range r.ConsumedCapacity {
			if a.Consumed == nil {
				a.Consumed = map[string]resource.Quantity{}
			}
			a.Consumed[string(name)] = quantity
		}
		out.Devices = append(out.Devices, a)
	}
	return out
}

// configsFor picks the layers of parameters of a driver that apply to a device, those
// of the device class before those of the claim.
func configsFor(all []resourceapi.DeviceAllocationConfiguration, driverName string, device resourceapi.DeviceRequestAllocationResult) []Config {
	var layers []Config
	for _, c := range resourceclaim.ConfigForResult(all, device) {
		if c.Opaque.Driver != driverName {
			continue
		}
		source := SourceClaim
		if c.Source == resourceapi.AllocationConfigSourceClass {
			source = SourceClass
		}
		layers = append(layers, Config{Source: source, Raw: c.Opaque.Parameters.Raw})
	}
	slices.SortStableFunc(layers, func(a, b Config) int { return -cmp.Compare(a.Source, b.Source) })
	return layers
}
