// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// fillLink reads what a claim has of a NIC that is shared: the pod has a link on it, which
// is no PCI function.
func (d *Device) fillLink(c *resourceapi.ResourceClaim, r resourceapi.DeviceRequestAllocationResult) {
	if d.Kind != NIC || r.ShareID == nil {
		return
	}
	if kind := d.text(slicecodec.AttrShareType); kind != "" && d.Driver == slicecodec.DriverNet {
		d.Link = &ShareLink{
			Alias: model.ShareAlias(string(c.UID), r.Request, r.Device, string(*r.ShareID)),
			Kind:  kind, Parent: d.PCI, ParentName: d.text(attrIfName), VLANID: d.Network.VLANID,
		}
	}
	d.PCI = nil
}

const attrIfName = slicecodec.DriverNet + "/ifName"

// text is an attribute that is a string; empty where the device has none.
func (d *Device) text(name string) string {
	a := d.attribute(name)
	if a == nil || a.StringValue == nil {
		return ""
	}
	return *a.StringValue
}
