// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"maps"
	"reflect"
	"strings"

	"k8s.io/utils/ptr"
)

// Layer is one set of parameters, and where it comes from in words, such as
// "class dra.net" or "claim".
type Layer struct {
	Source string
	Config *NetworkConfig
}

// SourceDefault is the source of what no layer says.
const SourceDefault = "default"

// Origins says where the value of each field comes from: the source of a layer,
// or SourceDefault, by the path of the field as in error messages, such as
// interface.mtu, routes[0].gateway and ethtool.features[tso]. An empty list has
// the path of the list.
type Origins map[string]string

// MergeNetworkConfigs lays later layers over earlier ones, field by field. A
// list replaces the list below it, also when it is empty; features, flags and
// sysctls merge by name. The layers stay as they are.
func MergeNetworkConfigs(layers ...*NetworkConfig) *NetworkConfig {
	var unnamed []Layer
	for _, l := range layers {
		unnamed = append(unnamed, Layer{Config: l})
	}
	out, _ := mergeLayers(unnamed)
	return out
}

// EffectiveNetworkConfig merges layers, the weakest first (cloud, profile,
// device class, claim), over the driver's defaults, and says of each field where it
// comes from. What is left out in the result stays as it is on the host.
func EffectiveNetworkConfig(layers ...Layer) (*NetworkConfig, Origins) {
	out, origins := mergeLayers(layers)
	fill := func(path string, field **string, value string) {
		if *field == nil {
			*field, origins[path] = &value, SourceDefault
		}
	}
	i := &out.Interface
	fill("interface.type", &i.Type, TypePassthrough)
	switch *i.Type {
	case TypeMacvlan:
		fill("interface.mode", &i.Mode, "bridge")
	case TypeIPvlan:
		fill("interface.mode", &i.Mode, "l2")
	}
	if is(i.DHCP, true) {
		fill("interface.addressing", &i.Addressing, AddressingDHCP)
		origins["interface.addressing"] = origins["interface.dhcp"]
	} else {
		fill("interface.addressing", &i.Addressing, AddressingStatic)
	}
	asked := overObject(&out.RDMA)
	for path, device := range map[string]**bool{"rdma.umad": &asked.UMAD, "rdma.issm": &asked.ISSM} {
		if *device == nil {
			*device, origins[path] = ptr.To(false), SourceDefault
		}
	}
	return out, origins
}

func mergeLayers(layers []Layer) (*NetworkConfig, Origins) {
	out, origins := &NetworkConfig{}, Origins{}
	for _, l := range layers {
		settleAddressing(&out.Interface, l.Config.Interface, origins)
		lay(reflect.ValueOf(out), reflect.ValueOf(l.Config), l.Source, origins)
	}
	return out, origins
}

// settleAddressing takes the lower layer's word on DHCP back where the layer
// above says otherwise in the other spelling.
func settleAddressing(below *InterfaceConfig, above InterfaceConfig, origins Origins) {
	switch {
	case above.DHCP != nil && above.Addressing == nil && below.Addressing != nil:
		if *above.DHCP != is(below.Addressing, AddressingDHCP) {
			below.Addressing = nil
			delete(origins, "interface.addressing")
		}
	case above.Addressing != nil && above.DHCP == nil && below.DHCP != nil:
		if *below.DHCP != is(above.Addressing, AddressingDHCP) {
			below.DHCP = nil
			delete(origins, "interface.dhcp")
		}
	}
}

// forget takes back the origins of a list and of all that it holds.
func (o Origins) forget(list string) {
	maps.DeleteFunc(o, func(path, _ string) bool {
		return path == list || strings.HasPrefix(path, list+"[")
	})
}

func overObject[T any](below **T) *T {
	if *below == nil {
		*below = new(T)
	}
	return *below
}
