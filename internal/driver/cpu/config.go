// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu/placement"
	"plumbline.dev/plumbline/internal/model"
)

// parameters is what the parameters of one device ask for.
type parameters struct {
	policy placement.Policy
	// cpusPath is the field that policy.CPUs come from.
	cpusPath string
	// choices are the fields that say how to choose, where a layer sets them.
	choices []string
}

// parametersOf merges and checks the layers of parameters of one device.
func parametersOf(layers []driver.Config) (parameters, error) {
	var decoded []v1alpha1.CPULayer
	for _, l := range layers {
		c, err := v1alpha1.DecodeCPUConfig(l.Raw)
		if err != nil {
			return parameters{}, fmt.Errorf("parameters of the %s: %w", l.Source, err)
		}
		decoded = append(decoded, v1alpha1.CPULayer{Source: l.Source, Config: c})
	}
	merged, origins := v1alpha1.EffectiveCPUConfig(decoded...)
	if err := merged.Validate(); err != nil {
		return parameters{}, fmt.Errorf("parameters: %w", err)
	}
	var w parameters
	for _, path := range []string{"l3", "coreTypes.prefer"} {
		if from := origins[path]; from != "" && from != v1alpha1.SourceDefault {
			w.choices = append(w.choices, path)
		}
	}
	w.policy.CPUs, w.cpusPath = merged.CPUs()
	w.policy.FullCores = *merged.FullCores
	w.policy.Spread = *merged.L3 == v1alpha1.L3Spread
	if types := merged.CoreTypes; types != nil {
		if types.Prefer != nil {
			w.policy.Prefer = model.CoreType(*types.Prefer)
		}
		for _, kind := range types.Exclude {
			w.policy.Exclude = append(w.policy.Exclude, model.CoreType(kind))
		}
	}
	return w, nil
}
