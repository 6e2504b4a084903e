// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package model

// PCIRoot is a PCI root bus, such as pci0000:8c.
type PCIRoot struct {
	// Name is the directory's name in sysfs, such as "pci0000:8c".
	Name string
	// Path is the directory below /sys, such as "devices/pci0000:8c".
	Path string
	// Published says whether the upstream helper would publish the root as
	// resource.kubernetes.io/pcieRoot: only a root directly below /sys/devices
	// is (k8s.io/dynamic-resource-allocation/deviceattribute). On Hyper-V each
	// device hangs from a root of its own below the VMBUS, and has none.
	Published bool
	// NUMANode is the node the root is local to; nil when its functions do not
	// say, or contradict each other.
	NUMANode *int
}

// PCI class codes, from include/linux/pci_ids.h, class byte only.
const (
	PCIClassStorage     = 0x01
	PCIClassNetwork     = 0x02
	PCIClassDisplay     = 0x03
	PCIClassBridge      = 0x06
	PCIClassAccelerator = 0x12
)

// PCIFunction is one function of a PCI device, bridges included.
type PCIFunction struct {
	Address PCIAddress `json:"address"`
	// Root is the name of the PCIRoot it hangs from.
	Root string `json:"root"`
	// Parent is the bridge above it; nil directly on the root bus.
	Parent *PCIAddress `json:"parent,omitempty"`
	// Class is the 24-bit class code, such as 0x020000
	// (/sys/bus/pci/devices/*/class).
	Class  uint32 `json:"class"`
	Vendor uint16 `json:"vendor"`
	Device uint16 `json:"device"`
	// VendorName and DeviceName are from the pci.ids database; nil when it has
	// no entry.
	VendorName *string `json:"vendorName,omitempty"`
	DeviceName *string `json:"deviceName,omitempty"`
	// SubsystemVendor and SubsystemDevice are nil where the function has none.
	SubsystemVendor *uint16 `json:"subsystemVendor,omitempty"`
	SubsystemDevice *uint16 `json:"subsystemDevice,omitempty"`
	// NUMANode is nil where the kernel says -1.
	NUMANode *int `json:"numaNode,omitempty"`
	// Driver is the bound kernel driver; nil when unbound.
	Driver *string `json:"driver,omitempty"`
	// Link is nil where the function has no PCIe link of its own.
	Link *PCILink `json:"link,omitempty"`
	// SRIOV is nil where the function cannot have virtual functions.
	SRIOV *SRIOV `json:"sriov,omitempty"`
	// PhysicalFunction is set on a virtual function (the physfn link).
	PhysicalFunction *PCIAddress `json:"physicalFunction,omitempty"`
	// VFIndex is the number of a virtual function at its physical one (virtfnN),
	// as in "ip link set PF vf N"; nil where the kernel does not say.
	VFIndex *int `json:"vfIndex,omitempty"`
}

// ClassByte is the base class, such as PCIClassNetwork.
func (f *PCIFunction) ClassByte() uint8 { return uint8(f.Class >> 16) }

// PCILink is a PCIe link as trained and as possible. Zero: not reported.
type PCILink struct {
	// SpeedMTs and MaxSpeedMTs are megatransfers per second: 32000 is 32.0 GT/s.
	SpeedMTs    int `json:"speedMTs,omitempty"`
	MaxSpeedMTs int `json:"maxSpeedMTs,omitempty"`
	// Width and MaxWidth are lanes.
	Width    int `json:"width,omitempty"`
	MaxWidth int `json:"maxWidth,omitempty"`
}

// SRIOV is the state of a physical function's virtual functions.
type SRIOV struct {
	TotalVFs int `json:"totalVFs"` // sriov_totalvfs
	NumVFs   int `json:"numVFs"`   // sriov_numvfs
}
