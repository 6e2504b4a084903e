// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"plumbline.dev/plumbline/internal/selector"
	"plumbline.dev/plumbline/internal/vendorconfig/nvidia"
)

// nvidiaTypes are the types of the devices of NVIDIA's own device classes.
var nvidiaTypes = map[string]string{
	"gpu.nvidia.com": nvidia.TypeGPU, "mig.nvidia.com": nvidia.TypeMIG, "vfio.gpu.nvidia.com": nvidia.TypeVFIO,
}

// nvidiaLayer is a configuration for NVIDIA's driver.
type nvidiaLayer struct {
	at *field.Path
	// requests are those that it names; none for all.
	requests []string
	config   nvidia.Config
}

// readNVIDIA checks one configuration by itself, as NVIDIA's driver reads it: nil where it
// cannot be read, or is for another driver. Nothing is merged, so that another layer sets
// nothing right.
func (l linter) readNVIDIA(at *field.Path, o *resourceapi.OpaqueDeviceConfiguration) nvidia.Config {
	if o == nil || o.Driver != nvidia.Driver {
		return nil
	}
	at = at.Child("opaque", "parameters")
	c, err := nvidia.Decode(o.Parameters.Raw)
	if err != nil {
		for _, e := range below(at, err) {
			l.error(e)
		}
		return nil
	}
	for _, e := range below(at, c.Mistakes().ToAggregate()) {
		l.error(e)
	}
	for _, e := range below(at, c.Warnings().ToAggregate()) {
		l.warning(e)
	}
	return c
}

// nvidiaClass checks the configurations of a class, each of which is for all requests of
// the class.
func (l linter) nvidiaClass() {
	has := typeOf(l.o.class.Selectors)
	if has == "" {
		has = nvidiaTypes[l.o.name]
	}
	for i, c := range l.o.class.Config {
		at := field.NewPath("spec", "config").Index(i)
		config := l.readNVIDIA(at, c.Opaque)
		if config != nil && has != "" && has != config.DeviceType() {
			l.wrongType(at, config, "the class", has)
		}
	}
}

// wrongType refuses a configuration for devices of another type.
func (l linter) wrongType(at *field.Path, c nvidia.Config, who, has string) {
	kind := c.Header().Kind
	l.error(field.Invalid(at.Child("opaque", "parameters", "kind"), kind, fmt.Sprintf(
		"is for devices of type %s, and %s takes those of type %s, for which the driver refuses it: want %s", c.DeviceType(), who, has, nvidia.KindFor(has))))
}

// nvidiaClaim checks the configurations of a claim, and which of them each request gets.
func (l linter) nvidiaClaim(requests []request) {
	var layers []nvidiaLayer
	for i, c := range l.o.claim.Devices.Config {
		at := l.o.path.Child("devices", "config").Index(i)
		if config := l.readNVIDIA(at, c.Opaque); config != nil {
			layers = append(layers, nvidiaLayer{at, c.Requests, config})
			l.parents(at, c.Requests, requests)
		}
	}
	if len(layers) == 0 {
		return
	}
	for _, layer := range layers {
		l.nobodys(layer, requests)
	}
	vfio := map[string]bool{}
	var last nvidiaLayer
	for _, r := range requests {
		has := l.in.nvidiaType(r)
		if has == "" {
			continue
		}
		chosen, ok := l.chosen(layers, r, has)
		if has == nvidia.TypeVFIO && !resourceclaim.IsSubRequestRef(r.name) {
			vfio[fmt.Sprint(chosen.at)] = true
			if ok {
				last = chosen
			}
		}
	}
	if len(vfio) > 1 {
		l.error(field.Forbidden(last.at.Child("requests"), "the driver takes one VfioDeviceConfig for all passed-through GPUs of a claim: want it for all of their requests, or a claim for each"))
	}
}

// chosen is the configuration of a claim that a request gets, as the driver finds it: the
// last one that names it, or that names none and is for its type. One that names the
// request and is for another type is refused.
func (l linter) chosen(layers []nvidiaLayer, r request, has string) (nvidiaLayer, bool) {
	for _, layer := range slices.Backward(layers) {
		switch {
		case slices.Contains(layer.requests, r.name) && layer.config.DeviceType() != has:
			l.wrongType(layer.at, layer.config, "request "+r.name, has)
			return nvidiaLayer{}, false
		case slices.Contains(layer.requests, r.name), len(layer.requests) == 0 && layer.config.DeviceType() == has:
			return layer, true
		}
	}
	return nvidiaLayer{}, false
}

// parents refuses the name of a request that has alternatives: the driver looks for
// request/alternative only, and drops what names the request without a word.
func (l linter) parents(at *field.Path, names []string, requests []request) {
	for i, name := range names {
		var alternatives []string
		for _, r := range requests {
			if resourceclaim.IsSubRequestRef(r.name) && resourceclaim.BaseRequestRef(r.name) == name && l.mayBeNVIDIAs(r) {
				alternatives = append(alternatives, r.name)
			}
		}
		if len(alternatives) > 0 {
			l.error(field.Invalid(at.Child("requests").Index(i), name, "has alternatives, and NVIDIA's driver drops what names the request and not them: want "+strings.Join(alternatives, ", ")))
		}
	}
}

// nobodys warns of a configuration for all requests of which none takes a device of its
// type: the driver passes over it.
func (l linter) nobodys(layer nvidiaLayer, requests []request) {
	if len(layer.requests) > 0 {
		return
	}
	var types []string
	for _, r := range requests {
		has := l.in.nvidiaType(r)
		if has == layer.config.DeviceType() || has == "" && l.mayBeNVIDIAs(r) {
			return // or it may take one
		}
		if has != "" {
			types = append(types, fmt.Sprintf("%s takes type %s", r.name, has))
		}
	}
	why := "the claim has no request for them"
	if len(types) > 0 {
		why = strings.Join(types, ", ")
	}
	l.warning(field.Invalid(layer.at.Child("opaque", "parameters", "kind"), layer.config.Header().Kind,
		fmt.Sprintf("is for devices of type %s, and the driver passes over it: %s", layer.config.DeviceType(), why)))
}

// mayBeNVIDIAs says whether a request can be given a device of NVIDIA's driver: its class
// wants that one, or does not say.
func (l linter) mayBeNVIDIAs(r request) bool {
	d := l.in.driverOf(r.class)
	return d == "" || d == nvidia.Driver
}

// nvidiaType is the type of the devices of NVIDIA's driver that a request takes, "" where
// it takes others or does not say.
func (in *inputs) nvidiaType(r request) string {
	if d := in.driverOf(r.class); d != "" && d != nvidia.Driver {
		return ""
	}
	var ofClass string
	if class := in.classes[r.class]; class != nil {
		ofClass = typeOf(class.class.Selectors)
	}
	return cmp.Or(typeOf(r.selectors), ofClass, nvidiaTypes[r.class])
}

// typeOf is the type of NVIDIA's devices that selectors want, "" where they do not say.
func typeOf(selectors []resourceapi.DeviceSelector) string {
	for _, s := range selectors {
		if s.CEL == nil {
			continue
		}
		a, err := selector.Analyse(s.CEL.Expression)
		if err != nil {
			continue // said where it stands
		}
		if has := a.Equal[selector.Attribute{Domain: nvidia.Driver, Name: "type"}]; nvidia.KindFor(has) != "" {
			return has
		}
	}
	return ""
}
