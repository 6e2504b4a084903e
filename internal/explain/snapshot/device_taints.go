// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// taintRulesSince is the first minor version that taints by rules without a
// feature gate (DRADeviceTaintRules).
const taintRulesSince = 37

// tainted are the slices with the taints of rules on their devices, as the
// scheduler sees them (k8s.io/dynamic-resource-allocation/resourceslice/tracker).
// A slice that no rule is about stays what it is.
func (s *Objects) tainted() []*resourceapi.ResourceSlice {
	if s.Minor < taintRulesSince || len(s.TaintRules) == 0 {
		return s.Slices
	}
	all := slices.Clone(s.Slices)
	for i, slice := range all {
		all[i] = s.taint(slice)
	}
	return all
}

func (s *Objects) taint(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	tainted := slice
	for d := range slice.Spec.Devices {
		for _, rule := range s.TaintRules {
			if !ruleMeans(rule, slice, slice.Spec.Devices[d].Name) {
				continue
			}
			if tainted == slice {
				tainted = slice.DeepCopy()
			}
			device := &tainted.Spec.Devices[d]
			device.Taints = append(device.Taints, rule.Spec.Taint)
		}
	}
	return tainted
}

// whole is a slice with its devices, and their taints.
func (c *Cluster) whole(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	if c.Unpack == nil {
		return slice
	}
	slice = c.Unpack(slice)
	if c.Minor < taintRulesSince {
		return slice
	}
	return c.taint(slice)
}

// ruleMeans says whether a rule is about a device. Without a selector it is about
// none, and an empty one is about all.
func ruleMeans(rule *resourceapi.DeviceTaintRule, slice *resourceapi.ResourceSlice, device string) bool {
	selector := rule.Spec.DeviceSelector
	return selector != nil && means(selector.Driver, slice.Spec.Driver) && means(selector.Pool, slice.Spec.Pool.Name) && means(selector.Device, device)
}

func means(wanted *string, is string) bool { return wanted == nil || *wanted == is }

// TaintRule is the name of the rule that puts a taint on a device of a slice, ""
// where the slice says so itself.
func (c *Cluster) TaintRule(slice *resourceapi.ResourceSlice, device string, taint *resourceapi.DeviceTaint) string {
	for _, rule := range c.TaintRules {
		t := rule.Spec.Taint
		if ruleMeans(rule, slice, device) && t.Key == taint.Key && t.Value == taint.Value && t.Effect == taint.Effect {
			return rule.Name
		}
	}
	return ""
}

// TaintText is a taint as kubectl prints that of a node: without "=" where it has no value.
func TaintText(t *resourceapi.DeviceTaint) string {
	return (&corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}).ToString()
}
