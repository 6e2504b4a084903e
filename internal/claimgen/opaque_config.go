// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// configure writes the parameters of interfaces. A request with alternatives is
// named by each of them: older drivers do not find "request/alternative" where
// "request" is written.
func (g *generator) configure() error {
	if g.o.InterfacePrefix == "" && g.o.MTU == 0 && len(g.o.VF) == 0 && g.o.Environment == "" && g.o.Pool == "" {
		return nil
	}
	if g.o.InterfacePrefix == "" {
		var all []string
		for _, name := range g.nics {
			all = append(all, g.each(name)...)
		}
		for few := range slices.Chunk(all, resourceapi.DeviceRequestsMaxSize) {
			if err := g.configuration(few, ""); err != nil {
				return err
			}
		}
		return nil
	}
	for i, name := range g.nics {
		if err := g.configuration(g.each(name), g.o.InterfacePrefix+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}

// each names all alternatives of a request for NICs, or the request.
func (g *generator) each(name string) []string {
	if len(g.alternatives) == 0 {
		return []string{name}
	}
	var names []string
	for _, alternative := range g.alternatives {
		names = append(names, resourceclaim.CreateSubRequestRef(name, alternative))
	}
	return names
}

// configuration writes the parameters of one interface, or of all; the driver's
// own rules say whether they are right.
func (g *generator) configuration(requests []string, interfaceName string) error {
	type parameters struct {
		APIVersion  string         `json:"apiVersion"`
		Kind        string         `json:"kind"`
		Interface   map[string]any `json:"interface,omitempty"`
		Environment string         `json:"environment,omitempty"`
	}
	p := parameters{
		APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.NetworkConfigKind,
		Interface: map[string]any{}, Environment: g.o.Environment,
	}
	if interfaceName != "" {
		p.Interface["name"] = interfaceName
	}
	if g.o.MTU > 0 {
		p.Interface["mtu"] = g.o.MTU
	}
	if len(g.o.VF) > 0 {
		p.Interface["vf"] = g.o.vfFields()
	}
	if g.o.Pool != "" {
		p.Interface["ipam"] = map[string]string{"pool": g.o.Pool}
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("marshal parameters: %w", err)
	}
	config, err := v1alpha1.DecodeNetworkConfig(raw)
	if err == nil {
		err = config.Validate()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", g.o.parameterFlags(), err)
	}
	g.spec.Devices.Config = append(g.spec.Devices.Config, resourceapi.DeviceClaimConfiguration{
		Requests: requests,
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: slicecodec.DriverNet, Parameters: runtime.RawExtension{Raw: raw},
		}},
	})
	return nil
}

// parameterFlags are the flags that parameters come from.
func (o *Options) parameterFlags() string {
	var flags []string
	if o.InterfacePrefix != "" {
		flags = append(flags, fmt.Sprintf("--interface-prefix %q", o.InterfacePrefix))
	}
	if o.MTU > 0 {
		flags = append(flags, fmt.Sprintf("--mtu %d", o.MTU))
	}
	if len(o.VF) > 0 {
		flags = append(flags, "--vf "+o.vf())
	}
	if o.Pool != "" {
		flags = append(flags, fmt.Sprintf("--pool %q", o.Pool))
	}
	if o.Environment != "" {
		flags = append(flags, fmt.Sprintf("--environment %q", o.Environment))
	}
	return strings.Join(flags, " ")
}

// vf is the option as people write it.
func (o *Options) vf() string {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(o.VF)) {
		fields = append(fields, name+"="+o.VF[name])
	}
	return strings.Join(fields, ",")
}

// vfFields are numbers and booleans where they are written so: the driver's own rules
// refuse what else there may be.
func (o *Options) vfFields() map[string]any {
	fields := map[string]any{}
	for name, value := range o.VF {
		if fields[name] = value; json.Valid([]byte(value)) {
			fields[name] = json.RawMessage(value)
		}
	}
	return fields
}
