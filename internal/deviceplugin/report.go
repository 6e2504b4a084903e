// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

// The report's version and kind.
const (
	APIVersion = "plumbline.dev/v1alpha1"
	Kind       = "DevicePlugins"
)

// Report is what the device plugins of a node offer, and which containers have it.
// Devices that are neither PCI functions nor GPUs by the name of their resource are left
// out. Fields are only ever added.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Node       string `json:"node"`
	// Devices are in the order of the kubelet's answer.
	Devices []Device `json:"devices"`
}

// Device is what the kubelet calls by one ID.
type Device struct {
	// Resource is the extended resource, such as nvidia.com/gpu.
	Resource string `json:"resource"`
	// ID is the device plugin's; several may be of one GPU.
	ID string `json:"id"`
	// Function is nil where the ID does not lead to a PCI function of the node.
	Function *Function `json:"pciFunction,omitempty"`
	// Held is nil of a device that no container has.
	Held *Holder `json:"heldBy,omitempty"`
}

// Function is where a device is. What the kernel does not say is absent.
type Function struct {
	Address string `json:"address"`
	Root    string `json:"pcieRoot"`
	// RootPublished says whether DRA drivers would publish the root.
	RootPublished bool   `json:"rootPublished,omitempty"`
	NUMANode      *int   `json:"numaNode,omitempty"`
	Class         uint32 `json:"class"`
	Vendor        uint16 `json:"vendor"`
	Device        uint16 `json:"device"`
	// Product is the name in the database of PCI IDs; empty where it has none.
	Product string `json:"product,omitempty"`
	// Driver is the bound kernel driver; empty where none is.
	Driver string `json:"driver,omitempty"`
}

// Holder is a container that has a device.
type Holder struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
}
