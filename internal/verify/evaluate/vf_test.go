// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"errors"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/nearest"
)

// Each setting of a virtual function is compared with what its physical one says, and
// flagged by its field; what nobody says is unknown.
func TestVirtualFunctionSettings(t *testing.T) {
	all := &v1alpha1.VFConfig{VLAN: ptr.To[int32](100), VLANQoS: ptr.To[int32](3), MaxTxRate: ptr.To[int32](1000), MinTxRate: ptr.To[int32](10),
		SpoofCheck: ptr.To(true), Trust: ptr.To(false)}
	const mac = "02:00:00:00:aa:01"
	told := func() collect.VFSettings {
		return collect.VFSettings{MAC: ptr.To(mac), VLAN: &collect.VFVLAN{ID: 100, QoS: 3, Protocol: 0x8100}, Rate: &collect.VFRate{Min: 10, Max: 1000},
			SpoofCheck: ptr.To(true), Trust: ptr.To(false)}
	}
	for _, tt := range []struct {
		name    string
		claimed *v1alpha1.VFConfig
		mac     string
		change  func(s *collect.VFSettings)
		err     error
		status  Status
		says    []string
	}{
		{name: "all as claimed", claimed: all, mac: mac, status: True},
		{name: "the VLAN lost", claimed: all, mac: mac, change: func(s *collect.VFSettings) { s.VLAN = &collect.VFVLAN{Protocol: 0x8100} }, status: False,
			says: []string{"interface.vf.vlan", "ens9 says 0, vlanQoS 0 of its virtual function 3, the claim 100, vlanQoS 3", "ip link set ens9 vf 3 vlan 100 qos 3"}},
		{name: "its priority lost", claimed: all, change: func(s *collect.VFSettings) { s.VLAN.QoS = 0 }, status: False, says: []string{"100, vlanQoS 0"}},
		{name: "another protocol", claimed: all, change: func(s *collect.VFSettings) { s.VLAN.Protocol = 0x88a8 }, status: False, says: []string{"protocol 0x88a8"}},
		{name: "everything forgotten", claimed: all, mac: mac, status: False,
			change: func(s *collect.VFSettings) {
				*s = collect.VFSettings{MAC: ptr.To("00:00:00:00:00:00"), VLAN: &collect.VFVLAN{}, Rate: &collect.VFRate{}, SpoofCheck: ptr.To(false), Trust: ptr.To(false)}
			},
			says: []string{"interface.hardwareAddr", "mac " + mac, "interface.vf.vlan", "min_tx_rate 10", "max_tx_rate 1000", "spoofchk on"}},
		{name: "trusted", claimed: all, change: func(s *collect.VFSettings) { s.Trust = ptr.To(true) }, status: False, says: []string{"interface.vf.trust", "trust off"}},
		{name: "a trusted function's own address", mac: mac, status: True,
			change: func(s *collect.VFSettings) { s.MAC, s.Trust = ptr.To("02:00:00:00:bb:02"), ptr.To(true) }},
		{name: "an address that nobody tells", mac: mac, change: func(s *collect.VFSettings) { s.MAC = nil }, status: True},
		{name: "one rate alone", claimed: &v1alpha1.VFConfig{MaxTxRate: ptr.To[int32](1000)}, change: func(s *collect.VFSettings) { s.Rate.Min = 500 }, status: True},
		{name: "no VLAN claimed, one there", claimed: &v1alpha1.VFConfig{VLAN: ptr.To[int32](0)}, status: False, says: []string{"says 100, vlanQoS 3"}},
		{name: "no VLAN, whatever the protocol", claimed: &v1alpha1.VFConfig{VLAN: ptr.To[int32](0)}, change: func(s *collect.VFSettings) { s.VLAN = &collect.VFVLAN{} }, status: True},
		{name: "not told", claimed: all, change: func(s *collect.VFSettings) { s.Rate = nil }, status: Unknown, says: []string{"interface.vf.minTxRate: the driver of physical function ens9 does not tell it"}},
		{name: "not known", claimed: all, err: errors.New("physical function has no interface"), status: Unknown, says: []string{"physical function has no interface"}},
		{name: "asked from another network namespace", claimed: all, mac: mac, err: collect.ErrNotOnHost, status: True},
		{name: "of an address it is no matter", mac: mac, err: errors.New("physical function has no interface"), status: True},
	} {
		t.Run(tt.name, func(t *testing.T) {
			expected, found := pod(cpuset.New(0), false, resourceapi.DeviceConstraint{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(slicecodec.AttrPCIBusID)), Requests: []string{"near"}})
			d := &expected.Claims[0].Devices[0]
			d.Network = expect.Network{VF: tt.claimed, HardwareAddr: tt.mac}
			v := collect.VirtualFunction{Err: tt.err}
			if tt.err == nil {
				v = collect.VirtualFunction{PF: "ens9", Number: 3, Settings: told()}
				if tt.change != nil {
					tt.change(&v.Settings)
				}
			}
			found.VirtualFunctions = map[model.PCIAddress]collect.VirtualFunction{*d.PCI: v}
			got := Pod(nearest.New(machine(t)), expected, found)
			if got.Status != tt.status || tt.status == False && got.Reason != VFSettingsWrong {
				t.Fatalf("%s (%s), want %s: %+v", got.Status, got.Reason, tt.status, got.Findings)
			}
			for _, text := range tt.says {
				if !strings.Contains(got.Message, text) {
					t.Errorf("%s: want %q", got.Message, text)
				}
			}
		})
	}
}
