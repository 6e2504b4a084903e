// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/model"
)

// Provider is a cloud as seen from one of its nodes.
type Provider interface {
	// Name is what people call it, such as "GCE".
	Name() string
	// Configures says whether an answer about a device may carry parameters.
	Configures(d Device) bool
	// Probe returns nil if the node is in this cloud, else why it seems not to
	// be.
	Probe(ctx context.Context) error
	// Lookup asks about devices, and gives one answer for each, in their order.
	// An error means that nothing was learnt of any.
	Lookup(ctx context.Context, devices []Device) ([]Answer, error)
}

// Answer is what a provider says of one device.
type Answer struct {
	// Attributes are named domain/name.
	Attributes map[string]model.Attribute `json:"attributes,omitempty"`
	// Config is the weakest layer of parameters for the device: a NetworkConfig
	// in JSON. Empty: none.
	Config []byte `json:"config,omitempty"`
	// Omitted says in one clause each what was left out of the answer, and why.
	Omitted []string `json:"-"`
	// Err is why nothing was learnt of the device; what was known stays true.
	Err error `json:"-"`
}

// Profiler turns the name of a profile into parameters. Both methods may be
// called again with the same claim and device, and must then change nothing.
type Profiler interface {
	// Profile returns the layer of parameters, a NetworkConfig in JSON, that the
	// profile named in the request's Config stands for.
	Profile(ctx context.Context, r ProfileRequest) ([]byte, error)
	// Release gives back what Profile may have taken, such as an address.
	Release(ctx context.Context, r ReleaseRequest) error
}

// ProfileRequest is what a profile is resolved for.
type ProfileRequest struct {
	Device Device
	Claim  *resourceapi.ResourceClaim
	// ShareID tells the claim's shares of one NIC apart; empty for a whole NIC.
	ShareID types.UID
	// Config is the merged configuration of cloud, device class and claim; its
	// Profile is set.
	Config *v1alpha1.NetworkConfig
}

// ReleaseRequest is ProfileRequest without what is no longer known when a claim
// ends.
type ReleaseRequest struct {
	Device   Device                  `json:"device"`
	ClaimUID types.UID               `json:"claimUID"`
	ShareID  types.UID               `json:"shareID,omitempty"`
	Config   *v1alpha1.NetworkConfig `json:"config"`
}
