// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package driver

import "encoding/json"

// Versions of Record. A build refuses those that it does not know, and leaves what they
// hold alone.
const (
	// RecordVersion is that of a record, unless an older build would take it for something
	// else.
	RecordVersion = 1
	// RecordVersionShares is that of a record with a share of a NIC: a build that knows none
	// would move the NIC itself.
	RecordVersionShares = 2
	// NewestRecordVersion is the last that this build reads.
	NewestRecordVersion = RecordVersionShares
)

// Record is what one driver decided about one claim, complete: what to do, and
// how to undo it. It is journaled before anything is done.
type Record struct {
	Version int `json:"version"`
	// BootID is /proc/sys/kernel/random/boot_id at Plan; after a reboot the
	// kernel has forgotten what the record did.
	BootID string   `json:"bootID"`
	Driver string   `json:"driver"`
	Claim  ClaimRef `json:"claim"`
	Pods   []PodRef `json:"pods"`
	// Devices are in the order of the allocation.
	Devices []DeviceRecord `json:"devices"`
}

// DeviceRecord is one device of a Record.
type DeviceRecord struct {
	Request     string `json:"request"`
	Pool        string `json:"pool"`
	Device      string `json:"device"`
	ShareID     string `json:"shareID,omitempty"`
	AdminAccess bool   `json:"adminAccess,omitempty"`
	// RDMA: the containers get an RDMA device that lasts as long as the claim.
	RDMA bool `json:"rdma,omitempty"`
	// Edits are what a container that names the request gets by CDI.
	Edits Edits `json:"edits"`
	// Plan is the driver's own typed plan for the device.
	Plan json.RawMessage `json:"plan"`
	// StatusData is public: the object that goes into the claim's status.devices as
	// data; nil for none.
	StatusData json.RawMessage `json:"told,omitempty"`
}

// Edits are the container edits of one device, in CDI's terms.
type Edits struct {
	Env         []string     `json:"env,omitempty"`
	DeviceNodes []DeviceNode `json:"deviceNodes,omitempty"`
	Mounts      []Mount      `json:"mounts,omitempty"`
	Hooks       []Hook       `json:"hooks,omitempty"`
}

// Hook is a program that the container runtime runs, in the OCI runtime's
// terms. One that fails keeps the container from starting.
type Hook struct {
	// Name is when it runs, such as createRuntime.
	Name string `json:"name"`
	// Path is the program's path on the host; Args include its name.
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"`
	Env  []string `json:"env,omitempty"`
	// TimeoutSeconds is when the runtime ends it; 0 is never.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
}

// DeviceNode is a device file to appear in the container under the host's
// path.
type DeviceNode struct {
	Path string `json:"path"`
	// Permissions are cgroup permissions, a subset of "rwm".
	Permissions string `json:"permissions"`
}
