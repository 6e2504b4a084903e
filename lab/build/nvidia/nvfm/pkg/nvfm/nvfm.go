// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nvfm has as much of the form of NVIDIA's bindings to its Fabric Manager as
// its DRA driver needs to compile. It knows no Fabric Manager: every call fails.
package nvfm

// Return is the outcome of a call.
type Return int

// SUCCESS is what no call here returns.
const SUCCESS Return = 0

const unavailable Return = -1

// String says what a person should know.
func (Return) String() string { return "the lab has no Fabric Manager" }

// FabricPartitionId numbers a partition.
type FabricPartitionId uint32

// GpuInfo is a GPU of a partition.
type GpuInfo struct {
	PhysicalId                                             uint32
	Uuid                                                   [40]int8
	PciBusId                                               [32]int8
	NumNvLinksAvailable, MaxNumNvLinks, NvlinkLineRateMBps uint32
}

// PartitionInfo is a partition.
type PartitionInfo struct {
	PartitionId       FabricPartitionId
	IsActive, NumGpus uint32
	GpuInfo           [16]GpuInfo
}

// FabricPartitionList are partitions.
type FabricPartitionList struct {
	NumPartitions uint32
	PartitionInfo [64]PartitionInfo
}

// LibraryOption and ConnectOption have no effect.
type (
	LibraryOption struct{}
	ConnectOption struct{}
)

// WithLibraryPath and those that follow are options.
func WithLibraryPath(string) LibraryOption { return LibraryOption{} }

// WithUnixSocket would choose where to connect.
func WithUnixSocket(string) ConnectOption { return ConnectOption{} }

// WithAddress would choose where to connect.
func WithAddress(string) ConnectOption { return ConnectOption{} }

// WithTimeoutMs would limit how long it takes.
func WithTimeoutMs(uint32) ConnectOption { return ConnectOption{} }

// Interface is the library.
type Interface interface {
	Init() Return
	Shutdown() Return
	Connect(options ...ConnectOption) (Handle, Return)
}

// Handle is a connection.
type Handle interface {
	Disconnect() Return
	GetSupportedFabricPartitions() (FabricPartitionList, Return)
	ActivateFabricPartition(id FabricPartitionId) Return
	DeactivateFabricPartition(id FabricPartitionId) Return
}

// New returns a library that cannot be opened.
func New(...LibraryOption) Interface { return none{} }

type none struct{}

func (none) Init() Return                              { return unavailable }
func (none) Shutdown() Return                          { return unavailable }
func (none) Connect(...ConnectOption) (Handle, Return) { return nil, unavailable }
