// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"time"

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

// HostReader is a driver whose Plan needs more than the last scan of the machine: the
// present state of the claim's devices.
type HostReader interface {
	// Read reads the claim's devices on the host, and returns a planner bound to
	// what it read, whose Plan is pure. Read may be slow: it is called without the
	// driver's allocation lock.
	Read(ctx context.Context, c Claim, m *model.Machine) (Planner, error)
}

// Stager is a driver with work that is slow, or that belongs to the device and
// not to the pod's namespace. It is done while Prepare is being answered, after
// the record is journaled, and undone at Unprepare.
type Stager interface {
	// Stage does the work. It may add to the record what it learned, such as a
	// DHCP lease; the record is journaled again. All or nothing: on an error
	// what was done is undone. Repeating it changes nothing.
	Stage(ctx context.Context, r Record) (Record, error)
	// Unstage undoes Stage, and needs the record alone, also one that Stage
	// never returned. The devices are on the host: Detach comes first.
	// Repeating it changes nothing.
	Unstage(ctx context.Context, r Record) error
}

// Renewer is a driver that holds leases.
type Renewer interface {
	// Renew renews the leases that are due. netns is the path of the pod's network
	// namespace. The record is journaled again when it changed; next is when the
	// next lease is due, zero when there is none.
	Renew(ctx context.Context, r Record, netns string) (renewed Record, next time.Time, err error)
}

// MemoryLocker is a driver with devices that access a process's memory by DMA.
type MemoryLocker interface {
	// MemlockFor says whether the containers that hold the record must be able
	// to lock any amount of memory (RLIMIT_MEMLOCK), as RDMA needs.
	MemlockFor(r Record) bool
}

// ContainerEditor is a driver with edits that can be known only once its devices are in
// the pod, such as device files whose numbers change with the move. They are asked for at
// each creation of a container, after Attach.
type ContainerEditor interface {
	// ContainerEdits are what one container gets beside the Edits that CDI gives it.
	// held are all of the driver's records that the container has, each reduced to the
	// devices that it has of them. netns is the path of the pod's network namespace;
	// empty for a pod in the host's. An error refuses the container, and the kubelet
	// tries again.
	ContainerEdits(ctx context.Context, held []Record, netns string) (ContainerEdits, error)
}

// ContainerEdits are edits of a container that is being created. What the container has
// already, from its image, its pod or CDI, stays as it is: a variable by its name, a file
// by its path, a mount by its destination. Its owner is told of a mount that it starts
// without.
type ContainerEdits struct {
	// Env are variables as NAME=value.
	Env         []string
	CharDevices []CharDevice
	Mounts      []Mount
	// Files are made for the container.
	Files []File
	// Notes say what the container starts without.
	Notes []Note
}

// Note is a sentence for the owner of a pod on what a container starts without. It is said
// once of a pod.
type Note struct {
	// Env is the variable that the container lacks: one that has it of its own lacks
	// nothing. Empty where it is none.
	Env  string
	Text string
}

// File is a file that is made for a container, which reads it where a variable says.
type File struct {
	// Name is unique among the files of the records' first claim, which it ends with.
	Name    string
	Content []byte
	// Destination is where the container has it, and Env the variable that says so. A
	// container that sets the variable itself does not get the file.
	Destination, Env string
}

// CharDevice is a character device to appear in a container, which may read and write
// it.
type CharDevice struct {
	// Path is in the container.
	Path         string
	Major, Minor int64
	// Mode are the file's permissions, such as 0666.
	Mode uint32
}

// Mount is a file or a directory of the host to appear in a container, read-only.
type Mount struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
}

// Describer is a driver that tells a container more of its devices than is published of
// them (KEP-5304).
type Describer interface {
	// Describe returns the attributes that it decided on of each of the record's devices,
	// in order, by name with domain.
	Describe(r Record) ([]map[string]model.Attribute, error)
}

// Attacher is a driver that puts devices into a pod's network namespace.
type Attacher interface {
	// Moves says whether anything of the record goes into the namespace. Where
	// nothing does, a pod in the host's network may have it. It is true for a record
	// that cannot be read.
	Moves(r Record) bool
	// Attach brings every device of the record into the network namespace at
	// path netns. All or nothing: on an error the devices that were moved are
	// back. Repeating it changes nothing.
	Attach(ctx context.Context, r Record, netns string) ([]DeviceStatus, error)
	// Detach brings the record's devices back to the host as they were. netns
	// may be empty or gone. Repeating it changes nothing. The error is a GoneError
	// where devices have gone for good and all others are back.
	Detach(ctx context.Context, r Record, netns string) error
}

// Pinner is a driver that decides on which CPUs containers run.
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
	// Env is added to the container's environment, such as
	// DRA_CPUSET_<claimUID>=2-5.
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
	// Note says what the device still waits for, or lacks in the pod; empty for
	// nothing.
	Note string `json:"note,omitempty"`
	// Attributes are what containers are told of the device as it is in the pod, by name
	// with domain; one without a value is not known any more.
	Attributes map[string]model.Attribute `json:"-"`
}
