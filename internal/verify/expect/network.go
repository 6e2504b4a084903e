// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// rdmaGiven is the condition by which a driver says that a device's RDMA device is the
// pod's: plumbline's always, DRANET's where it moves RDMA devices.
const rdmaGiven = "RDMALinkReady"

// Network is what a claim's parameters ask of a NIC that its physical function or the
// container runtime is to keep up; what a profile or the cloud asks is not among it.
type Network struct {
	// Err says why the parameters cannot be read.
	Err error
	// VF are settings of a virtual function (interface.vf); nil for none.
	VF *v1alpha1.VFConfig
	// HardwareAddr is interface.hardwareAddr of a virtual function, lower case; empty
	// for none.
	HardwareAddr string
	// VLANID is interface.vlanID of a link on a shared NIC; 0 for none.
	VLANID int
	// UMAD and ISSM say that the management files are asked for (rdma.umad, rdma.issm).
	UMAD, ISSM bool
}

// SetsVF says whether a physical function is to set something of the device.
func (n *Network) SetsVF() bool { return n.VF != nil || n.HardwareAddr != "" }

// fillNetwork reads what a claim and its status say of a NIC.
func (d *Device) fillNetwork(c *resourceapi.ResourceClaim, r resourceapi.DeviceRequestAllocationResult) {
	if d.Kind != NIC || d.Driver != slicecodec.DriverNet {
		return
	}
	// DRANET, of the same name, publishes no link layer, gives management files unasked
	// and raises no limit.
	d.LimitsRDMA = d.attribute(slicecodec.AttrRDMALinkLayer) != nil
	if name := d.attribute(slicecodec.AttrRDMADevice); name != nil && name.StringValue != nil {
		d.RDMADevice = *name.StringValue
	}
	// DRANET publishes no address of the physical function, and sets nothing through it.
	d.Network = networkOf(c.Status.Allocation.Devices.Config, r, d.attribute(slicecodec.AttrPFAddress) != nil)
	for _, s := range c.Status.Devices {
		if s.Driver != r.Driver || s.Pool != r.Pool || s.Device != r.Device {
			continue
		}
		for _, condition := range s.Conditions {
			d.RDMAGiven = d.RDMAGiven || condition.Type == rdmaGiven
		}
		if s.NetworkData == nil {
			continue
		}
		for _, ip := range s.NetworkData.IPs {
			if p, err := netip.ParsePrefix(ip); err == nil && p.Addr().IsGlobalUnicast() {
				d.Addresses = append(d.Addresses, p.Addr().Unmap())
			}
		}
	}
}

// networkOf merges the parameters of a device, those of its class below the claim's.
func networkOf(all []resourceapi.DeviceAllocationConfiguration, r resourceapi.DeviceRequestAllocationResult, isVF bool) Network {
	layers, err := layersOf(all, r)
	if err != nil && !isVF {
		return Network{} // another driver's, which asks nothing of a physical function
	}
	if err != nil {
		return Network{Err: fmt.Errorf("parameters of request %s: %w", r.Request, err)}
	}
	n, merged := Network{}, v1alpha1.MergeNetworkConfigs(layers...)
	i := merged.Interface
	if i.VF != nil && *i.VF != (v1alpha1.VFConfig{}) {
		n.VF = i.VF
	}
	if i.HardwareAddr != nil && isVF && (i.Type == nil || *i.Type == v1alpha1.TypePassthrough) {
		// As the kernel spells it; what is no address was refused by the driver.
		if parsed, err := net.ParseMAC(*i.HardwareAddr); err == nil {
			n.HardwareAddr = parsed.String()
		}
	}
	n.VLANID = int(ptr.Deref(i.VLANID, 0))
	if merged.RDMA != nil {
		n.UMAD, n.ISSM = ptr.Deref(merged.RDMA.UMAD, false), ptr.Deref(merged.RDMA.ISSM, false)
	}
	return n
}

// layersOf are the parameters that apply to a device, the weakest first.
func layersOf(all []resourceapi.DeviceAllocationConfiguration, r resourceapi.DeviceRequestAllocationResult) ([]*v1alpha1.NetworkConfig, error) {
	var class, claim []*v1alpha1.NetworkConfig
	for _, c := range resourceclaim.ConfigForResult(all, r) {
		if c.Opaque.Driver != r.Driver {
			continue
		}
		layer, err := v1alpha1.DecodeNetworkConfig(c.Opaque.Parameters.Raw)
		if err != nil {
			return nil, err
		}
		if c.Source == resourceapi.AllocationConfigSourceClass {
			class = append(class, layer)
		} else {
			claim = append(claim, layer)
		}
	}
	return slices.Concat(class, claim), nil
}
