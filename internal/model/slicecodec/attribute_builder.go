// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

// builder collects the attributes of one device. Setting a nil value sets
// nothing.
type builder struct {
	device resourceapi.Device
	// omitted says in one clause each what was left out, and why.
	omitted []string
}

func (b *builder) omit(format string, args ...any) {
	b.omitted = append(b.omitted, fmt.Sprintf(format, args...))
}

func newBuilder(name string) *builder {
	return &builder{device: resourceapi.Device{
		Name:       name,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{},
	}}
}

func (b *builder) set(name string, a resourceapi.DeviceAttribute) {
	b.device.Attributes[resourceapi.QualifiedName(name)] = a
}

func (b *builder) text(name string, v *string) {
	if v == nil {
		return
	}
	if bounded := boundText(*v); bounded != "" {
		b.set(name, resourceapi.DeviceAttribute{StringValue: &bounded})
	}
}

func (b *builder) version(name string, v *string) {
	if v == nil {
		return
	}
	if len(*v) > resourceapi.DeviceAttributeMaxValueLength || !semanticVersion.MatchString(*v) {
		b.omit("attribute %s: %.80q is no semantic version", name, *v)
		return
	}
	b.set(name, resourceapi.DeviceAttribute{VersionValue: v})
}

// semanticVersion is what the API takes for a version, by semver.org 2.0.0.
var semanticVersion = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
	`(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)

func (b *builder) number(name string, v *int) {
	if v != nil {
		b.set(name, resourceapi.DeviceAttribute{IntValue: ptr.To(int64(*v))})
	}
}

func (b *builder) flag(name string, v bool) {
	b.set(name, resourceapi.DeviceAttribute{BoolValue: &v})
}

// place sets the NUMA node, and the socket that this belongs to.
func (b *builder) place(m *model.Machine, node *int) {
	b.numaNode(node)
	b.number(AttrSocket, m.Socket(node))
}

// numaNode sets the standard and the legacy name.
func (b *builder) numaNode(node *int) {
	b.number(AttrNUMANode, node)
	b.number(AttrLegacyNUMANode, node)
}

// build drops what is over the API's limit, least needed first, and returns
// the device.
func (b *builder) build() resourceapi.Device {
	for _, name := range LeastNeeded(b.device.Attributes) {
		if len(b.device.Attributes)+len(b.device.Capacity) <= resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
			break
		}
		b.omit("attribute %s: a device has room for %d", name, resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
		delete(b.device.Attributes, name)
	}
	return b.device
}

// LeastNeeded lists those of a device's attributes that may be left out where there is no
// room for all, in that order.
func LeastNeeded(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) []resourceapi.QualifiedName {
	var own, foreign []resourceapi.QualifiedName
	for _, name := range dropOrder {
		if _, there := attributes[resourceapi.QualifiedName(name)]; there {
			own = append(own, resourceapi.QualifiedName(name))
		}
	}
	for name := range attributes {
		if s := string(name); !ownAttributes[s] && strings.Contains(s, "/") && ForeignName(s) && !slices.Contains(dropOrder, s) {
			foreign = append(foreign, name)
		}
	}
	slices.Sort(foreign)
	slices.Reverse(foreign)
	return append(own, foreign...)
}

// boundText makes a string valid for the API: UTF-8, at most 64 bytes, cut between
// characters.
func boundText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for len(s) > resourceapi.DeviceAttributeMaxValueLength {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}

// boundList joins whole items with commas as far as they fit, in sorted order;
// nil when nothing does.
func boundList(items []string) *string {
	items = slices.Sorted(slices.Values(items))
	var joined string
	for _, item := range items {
		next := item
		if joined != "" {
			next = joined + "," + item
		}
		if len(next) > resourceapi.DeviceAttributeMaxValueLength {
			break
		}
		joined = next
	}
	if joined == "" {
		return nil
	}
	return &joined
}
