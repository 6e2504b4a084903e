// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// Planner is a device driver's pure half.
type Planner interface {
	// Name is the DRA driver name, such as dra.net.
	Name() string
	// Plan turns an allocated claim into a complete Record, or refuses with an
	// error that names the object, the field and the value. held are the
	// records of all other claims of this driver on this node.
	Plan(c Claim, m *model.Machine, held []Record) (Record, error)
}

// Attacher is a driver that puts devices into a pod's network namespace.
type Attacher interface {
	// Attach brings every device of the record into the network namespace at
	// path netns. All or nothing: on an error the devices that were moved are
	// back. Repeating it changes nothing.
	Attach(ctx context.Context, r Record, netns string) ([]DeviceStatus, error)
	// Detach brings the record's devices back to the host as they were. netns
	// may be empty or gone. Repeating it changes nothing.
	Detach(ctx context.Context, r Record, netns string) error
}

// Pinner is a driver that decides where containers run.
type Pinner interface {
	// Exclusive is what a container holding these records gets: its CPUs, and
	// the memory nodes beside them.
	Exclusive(records []Record) (Pin, error)
	// Shared is what every other container gets while records are held.
	Shared(m *model.Machine, held []Record) (Pin, error)
}

// Pin is a container's placement. Empty sets mean: leave as it is.
type Pin struct {
	CPUs, Mems cpuset.CPUSet
	// Env tells the container, such as DRA_CPUSET_<claimUID>=2-5.
	Env []string
}

// DeviceStatus is what an attached device looks like from inside the pod, for
// the claim's status.devices.
type DeviceStatus struct {
	Device string `json:"device"`
	// InterfaceName, HardwareAddress and IPs fill networkData.
	InterfaceName   string   `json:"interfaceName,omitempty"`
	HardwareAddress string   `json:"hardwareAddress,omitempty"`
	IPs             []string `json:"ips,omitempty"`
}
