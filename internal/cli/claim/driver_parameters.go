// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// parameters are the opaque parameters of one of plumbline's drivers, of one layer or
// merged.
type parameters interface {
	FieldValues() []v1alpha1.FieldValue
	Mistakes() field.ErrorList
}

// layer is one set of parameters, and where it comes from in words.
type layer struct {
	source string
	config parameters
}

// schema is how a driver's parameters are read and merged.
type schema struct {
	driver string
	decode func([]byte) (parameters, error)
	// effective merges layers of this schema, the weakest first.
	effective func([]layer) (parameters, v1alpha1.Origins)
}

// schemas are those of the drivers that have parameters.
var schemas = []schema{
	{
		driver: slicecodec.DriverNet,
		decode: func(text []byte) (parameters, error) { return v1alpha1.DecodeNetworkConfig(text) },
		effective: func(layers []layer) (parameters, v1alpha1.Origins) {
			var typed []v1alpha1.Layer
			for _, l := range layers {
				if c, ok := l.config.(*v1alpha1.NetworkConfig); ok {
					typed = append(typed, v1alpha1.Layer{Source: l.source, Config: c})
				}
			}
			return v1alpha1.EffectiveNetworkConfig(typed...)
		},
	},
	{
		driver: slicecodec.DriverCPU,
		decode: func(text []byte) (parameters, error) { return v1alpha1.DecodeCPUConfig(text) },
		effective: func(layers []layer) (parameters, v1alpha1.Origins) {
			var typed []v1alpha1.CPULayer
			for _, l := range layers {
				if c, ok := l.config.(*v1alpha1.CPUConfig); ok {
					typed = append(typed, v1alpha1.CPULayer{Source: l.source, Config: c})
				}
			}
			return v1alpha1.EffectiveCPUConfig(typed...)
		},
	},
}

// schemaOf is that of a driver; not ok where we read no parameters of it.
func schemaOf(driverName string) (schema, bool) {
	for _, s := range schemas {
		if s.driver == driverName {
			return s, true
		}
	}
	return schema{}, false
}

// decodeLayers reads the layers of one device.
func (s schema) decodeLayers(configs []driver.Config) ([]layer, error) {
	var layers []layer
	for _, c := range configs {
		decoded, err := s.decode(c.Raw)
		if err != nil {
			return nil, fmt.Errorf("parameters of the %s: %w", c.Source, err)
		}
		layers = append(layers, layer{c.Source, decoded})
	}
	return layers, nil
}
