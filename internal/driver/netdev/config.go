// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"slices"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
)

// profileSource is the layer that a named profile was resolved to.
const profileSource = "profile"

// configOf merges and checks the layers of parameters of one device.
func configOf(layers []driver.Config) (*v1alpha1.NetworkConfig, error) {
	decoded, err := driver.DecodeLayers(layers, v1alpha1.DecodeNetworkConfig)
	if err != nil {
		return nil, err
	}
	merged := v1alpha1.MergeNetworkConfigs(decoded...)
	if err := merged.Validate(); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	resolved := slices.ContainsFunc(layers, func(l driver.Config) bool { return l.Source == profileSource })
	if merged.Profile != nil && !resolved {
		return nil, fmt.Errorf("profile: %q: nobody resolved it: start the agent with a profile provider", *merged.Profile)
	}
	return merged, nil
}

// refuseUnapplied refuses every field that this driver would not apply: a pod
// must not run without what its claim says.
func refuseUnapplied(c *v1alpha1.NetworkConfig) error {
	i := c.Interface
	var errs []error
	for _, f := range []struct {
		path string
		set  bool
	}{
		{"interface.type", i.Type != nil && *i.Type != v1alpha1.TypePassthrough},
		{"interface.ipam", i.IPAM != nil},
	} {
		if f.set {
			errs = append(errs, fmt.Errorf("%s: this build does not apply it yet: leave it out", f.path))
		}
	}
	return errors.Join(errs...)
}
