// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
)

// ID names a device in the cluster.
type ID struct{ Driver, Pool, Device string }

// Published are the attributes of devices.
type Published map[ID]map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// PublishedIn reads slices. Of slices of one pool that contradict each other the
// youngest generation counts, as for the scheduler.
func PublishedIn(list []resourceapi.ResourceSlice) Published {
	type pool struct{ driver, name string }
	newest := map[pool]int64{}
	for _, s := range list {
		key := pool{s.Spec.Driver, s.Spec.Pool.Name}
		newest[key] = max(newest[key], s.Spec.Pool.Generation)
	}
	out := Published{}
	for _, s := range list {
		if s.Spec.Pool.Generation != newest[pool{s.Spec.Driver, s.Spec.Pool.Name}] {
			continue
		}
		for _, d := range s.Spec.Devices {
			out[ID{s.Spec.Driver, s.Spec.Pool.Name, d.Name}] = d.Attributes
		}
	}
	return out
}

func valuesOf(a *resourceapi.DeviceAttribute) (values []string, list bool) {
	switch {
	case a.StringValue != nil:
		return []string{*a.StringValue}, false
	case a.IntValue != nil:
		return []string{strconv.FormatInt(*a.IntValue, 10)}, false
	case a.BoolValue != nil:
		return []string{strconv.FormatBool(*a.BoolValue)}, false
	case a.VersionValue != nil:
		return []string{*a.VersionValue}, false
	}
	values = append(values, a.StringValues...)
	values = append(values, a.VersionValues...)
	for _, n := range a.IntValues {
		values = append(values, strconv.FormatInt(n, 10))
	}
	for _, b := range a.BoolValues {
		values = append(values, strconv.FormatBool(b))
	}
	return values, true
}
