// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"maps"
	"slices"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
)

// containerOf is what valid parameters give containers of the host; nil for nothing.
func containerOf(c *v1alpha1.NetworkConfig) *Container {
	if c.Container == nil || len(c.Container.Mounts)+len(c.Container.Env) == 0 {
		return nil
	}
	given := &Container{Env: c.Container.Env}
	for _, m := range c.Container.Mounts {
		given.Mounts = append(given.Mounts, driver.Mount{Source: *m.HostPath, Destination: *m.ContainerPath})
	}
	return given
}

// hostParts are what the NICs that a container has by records give it of the host, each
// once. NICs of several classes may be in one container, and their claims need not know of
// each other: where two give different things at one place, neither is the right one.
func hostParts(held []driver.Record) (mounts []driver.Mount, env []string, err error) {
	type part struct{ value, by string }
	given := map[string]part{}
	// isNew says whether nobody has given the same before.
	isNew := func(field, place, value, by string) (bool, error) {
		first, there := given[field+" "+place]
		if !there {
			given[field+" "+place] = part{value, by}
			return true, nil
		}
		if first.value != value {
			return false, fmt.Errorf("%s: %s: %s: %q, and %s says %q: want the same of the classes of both, or a container for each",
				by, field, place, value, first.by, first.value)
		}
		return false, nil
	}
	for _, r := range held {
		for _, dev := range r.Devices {
			plan, err := readBrief(dev)
			if err != nil || plan.Container == nil {
				continue // what cannot be read refused the container before
			}
			by := fmt.Sprintf("claim %s, device %s", r.Claim, dev.Device)
			for _, m := range plan.Container.Mounts {
				add, err := isNew("container.mounts", m.Destination, m.Source, by)
				if err != nil {
					return nil, nil, err
				}
				if add {
					mounts = append(mounts, m)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(plan.Container.Env)) {
				add, err := isNew("container.env", name, plan.Container.Env[name], by)
				if err != nil {
					return nil, nil, err
				}
				if add {
					env = append(env, name+"="+plan.Container.Env[name])
				}
			}
		}
	}
	return mounts, env, nil
}
