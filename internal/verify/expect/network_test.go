// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// vfClaim is a claim of a virtual function, with parameters of its class and of itself.
func vfClaim(class, claim string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{}
	opaque := func(source resourceapi.AllocationConfigSource, driver, text string, requests ...string) resourceapi.DeviceAllocationConfiguration {
		return resourceapi.DeviceAllocationConfiguration{Source: source, Requests: requests, DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(text)}},
		}}
	}
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "nic", Driver: "dra.net", Pool: "n", Device: "vf"}},
		Config: []resourceapi.DeviceAllocationConfiguration{
			opaque(resourceapi.AllocationConfigSourceClaim, "dra.net", claim, "nic"),
			opaque(resourceapi.AllocationConfigSourceClass, "dra.net", class),
			opaque(resourceapi.AllocationConfigSourceClaim, "gpu.nvidia.com", `{"x": 1}`),
			opaque(resourceapi.AllocationConfigSourceClaim, "dra.net", `{"interface": {"vf": {"vlan": 9}}}`, "another"),
		},
	}}
	return c
}

// What is asked of a virtual function is what the driver makes of all layers; a NIC of
// which nobody publishes a physical function has no address set there.
func TestNetwork(t *testing.T) {
	ours := Published{{"dra.net", "n", "vf"}: {
		"dra.net/ifName": {StringValue: ptr.To("eth5")}, "plumbline.dev/physicalFunction": {StringValue: ptr.To("0000:01:00.0")},
	}}
	dranets := Published{{"dra.net", "n", "vf"}: {"dra.net/ifName": {StringValue: ptr.To("eth5")}, "dra.net/isSriovVf": {BoolValue: ptr.To(true)}}}
	for _, tt := range []struct {
		name, class, claim string
		published          Published
		vlan, qos          *int32
		mac, err           string
		umad               bool
	}{
		{name: "the claim's above the class's", class: `{"interface": {"vf": {"vlan": 1, "vlanQoS": 2}}}`, claim: `{"interface": {"vf": {"vlan": 100}}}`, published: ours, vlan: ptr.To[int32](100), qos: ptr.To[int32](2)},
		{name: "nothing of it", class: `{}`, claim: `{"interface": {"vf": {}, "mtu": 1500}, "rdma": {"umad": true}}`, published: ours, umad: true},
		{name: "an address", class: `{}`, claim: `{"interface": {"hardwareAddr": "02-00-00-00-00-AA"}}`, published: ours, mac: "02:00:00:00:00:aa"},
		{name: "an address of DRANET's", class: `{}`, claim: `{"interface": {"hardwareAddr": "02:00:00:00:00:aa"}}`, published: dranets},
		{name: "an address of no virtual function", class: `{}`, claim: `{"interface": {"hardwareAddr": "02:00:00:00:00:aa"}}`},
		{name: "unreadable", class: `{}`, claim: `{"interface": {"vf": {"vlam": 1}}}`, published: ours, err: "parameters of request nic: interface.vf.vlam"},
		{name: "unreadable, of DRANET", class: `{}`, claim: `{"interface": {"future": 1}}`, published: dranets},
	} {
		t.Run(tt.name, func(t *testing.T) {
			published := tt.published
			if published == nil {
				published = Published{{"dra.net", "n", "vf"}: {"dra.net/ifName": {StringValue: ptr.To("eth5")}}}
			}
			n := ClaimOf(vfClaim(tt.class, tt.claim), published).Devices[0].Network
			if (n.Err == nil) != (tt.err == "") || n.Err != nil && !strings.Contains(n.Err.Error(), tt.err) {
				t.Fatalf("%v, want %q", n.Err, tt.err)
			}
			if n.HardwareAddr != tt.mac || n.UMAD != tt.umad || (n.VF != nil) != (tt.vlan != nil) || n.SetsVF() != (tt.vlan != nil || tt.mac != "") {
				t.Fatalf("got %+v", n)
			}
			if n.VF != nil && (*n.VF.VLAN != *tt.vlan || *n.VF.VLANQoS != *tt.qos) {
				t.Errorf("VLAN %d, priority %d", *n.VF.VLAN, *n.VF.VLANQoS)
			}
		})
	}
}

// The driver says in the claim's status what it gave of RDMA, and the slices whose driver
// that is.
func TestRDMAGiven(t *testing.T) {
	c := vfClaim(`{}`, `{}`)
	published := Published{{"dra.net", "n", "vf"}: {
		"dra.net/ifName": {StringValue: ptr.To("eth5")}, "dra.net/rdma": {BoolValue: ptr.To(true)},
		"dra.net/rdmaDevice": {StringValue: ptr.To("mlx5_3")}, "dra.net/rdmaLinkLayer": {StringValue: ptr.To("Ethernet")},
	}}
	if d := ClaimOf(c, published).Devices[0]; d.RDMAGiven || !d.LimitsRDMA || d.RDMADevice != "mlx5_3" {
		t.Errorf("before the driver says so: %+v", d)
	}
	c.Status.Devices = []resourceapi.AllocatedDeviceStatus{
		{Driver: "dra.net", Pool: "n", Device: "other", Conditions: []metav1.Condition{{Type: "RDMALinkReady"}}},
		{Driver: "dra.net", Pool: "n", Device: "vf", Conditions: []metav1.Condition{{Type: "Ready"}, {Type: "RDMALinkReady"}},
			NetworkData: &resourceapi.NetworkDeviceData{IPs: []string{"10.0.0.5/24", "fe80::1/64", "::ffff:10.0.0.6/128", "x"}}},
	}
	d := ClaimOf(c, published).Devices[0]
	if !d.RDMAGiven || len(d.Addresses) != 2 || d.Addresses[0].String() != "10.0.0.5" || d.Addresses[1].String() != "10.0.0.6" {
		t.Errorf("given %t, addresses %v", d.RDMAGiven, d.Addresses)
	}
	delete(published[ID{"dra.net", "n", "vf"}], "dra.net/rdmaLinkLayer")
	if d := ClaimOf(c, published).Devices[0]; d.LimitsRDMA {
		t.Error("DRANET is held to what plumbline promises")
	}
}
