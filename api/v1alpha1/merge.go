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

// SourceDefault is the source of a field that no layer sets.
const SourceDefault = "default"

// Origins says where the value of each field comes from: the source of a layer,
// or SourceDefault, by the path of the field as in error messages, such as
// interface.mtu, routes[0].gateway and ethtool.features[tso]. An empty list has
// the path of the list.
type Origins map[string]string

// MergeNetworkConfigs merges layers field by field, the later over the earlier. A
// list replaces the list below it, also when it is empty; features, flags, sysctls and
// variables merge by name. The layers are not changed.
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
	fill("environment", &out.Environment, EnvironmentNone)
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

// settleAddressing unsets what a lower layer says of DHCP where the layer above says
// otherwise by the other field: interface.dhcp and interface.addressing mean the same,
// and the upper layer wins.
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

// lay merges one configuration over another, and records the source of every field that
// it takes from above.
func lay(below, above reflect.Value, source string, origins Origins) {
	layValue("", below, above, func(path string, taken reflect.Value) {
		if taken.Kind() == reflect.Slice {
			origins.forget(path)
		}
		walk(path, taken, func(field string, _ reflect.Value) { origins[field] = source })
	})
}

func layValue(path string, below, above reflect.Value, note func(string, reflect.Value)) {
	switch {
	case above.IsNil():
	case above.Kind() == reflect.Pointer && above.Type().Elem().Kind() == reflect.Struct:
		if below.IsNil() {
			below.Set(reflect.New(above.Type().Elem()))
		}
		eachField(path, above.Elem(), func(at string, i int) {
			layValue(at, pointerTo(below, i), pointerTo(above, i), note)
		})
	case above.Kind() == reflect.Map:
		if below.IsNil() {
			below.Set(reflect.MakeMap(above.Type()))
		}
		for entries := above.MapRange(); entries.Next(); {
			below.SetMapIndex(entries.Key(), entries.Value())
		}
		note(path, above)
	default:
		below.Set(above)
		note(path, above)
	}
}

// pointerTo is a field of a struct, as a pointer also where it is a struct
// itself.
func pointerTo(structure reflect.Value, i int) reflect.Value {
	f := structure.Elem().Field(i)
	if f.Kind() == reflect.Struct {
		return f.Addr()
	}
	return f
}

// forget removes the origins of a list and of its elements.
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
