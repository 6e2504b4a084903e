// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// maxAttributes is how many attributes of one device are kept: as many as a
// device of a ResourceSlice can have in all.
const maxAttributes = resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice

// sanitize leaves out of an answer what could not be published. A text that is too
// long is left out and not cut: two that differ behind the cut would match each
// other in a claim's matchAttribute.
func sanitize(a Answer) Answer {
	kept := map[string]model.Attribute{}
	for _, name := range slices.Sorted(maps.Keys(a.Attributes)) {
		if why := refuse(name, a.Attributes[name]); why != "" {
			a.Omitted = append(a.Omitted, why)
		} else if len(kept) == maxAttributes {
			a.Omitted = append(a.Omitted, fmt.Sprintf("attribute %s: a device has room for %d", name, maxAttributes))
		} else {
			kept[name] = a.Attributes[name]
		}
	}
	a.Attributes = kept
	return a
}

// refuse says why an attribute cannot be published, or "".
func refuse(name string, v model.Attribute) string {
	switch {
	case !slicecodec.ForeignName(name):
		return fmt.Sprintf("attribute %.80q: want a name of the form domain/name, in a domain of the cloud", name)
	case v.Number != nil || v.Flag != nil:
		return ""
	case v.Text == nil || *v.Text == "":
		return fmt.Sprintf("attribute %s: it has no value", name)
	case !utf8.ValidString(*v.Text):
		return fmt.Sprintf("attribute %s: its text is not UTF-8", name)
	case len(*v.Text) > resourceapi.DeviceAttributeMaxValueLength:
		return fmt.Sprintf("attribute %s: its text has %d bytes, want %d at most", name, len(*v.Text), resourceapi.DeviceAttributeMaxValueLength)
	}
	return ""
}

// List joins items with commas, whole ones as far as they fit into one
// attribute, in their order; "" when nothing does.
func List(items []string) string {
	joined := ""
	for _, item := range items {
		next := strings.TrimPrefix(joined+","+item, ",")
		if len(next) > resourceapi.DeviceAttributeMaxValueLength {
			break
		}
		joined = next
	}
	return joined
}
