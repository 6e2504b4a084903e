// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"

	"plumbline.dev/plumbline/internal/model"
)

// reservedDomains are closed to clouds: constraints match devices by the standard
// names, and ours mark stand-ins.
var reservedDomains = []string{"resource.kubernetes.io", "plumbline.dev"}

// cloudAttributes sets the attributes that a cloud gives a NIC. The driver's own names
// are left out, and names that the API would refuse together with the whole slice.
func (b *builder) cloudAttributes(attributes map[string]model.Attribute) {
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if !ForeignName(name) {
			b.omit("attribute %q of the cloud: want domain/name, the domain not one of %s, the name at most %d letters, digits and _",
				name, strings.Join(reservedDomains, " and "), resourceapi.DeviceMaxIDLength)
			continue
		}
		if ownAttributes[name] {
			b.omit("attribute %s of the cloud: the driver's own", name)
			continue
		}
		switch v := attributes[name]; {
		case v.Text != nil:
			b.text(name, v.Text)
		case v.Number != nil:
			b.set(name, resourceapi.DeviceAttribute{IntValue: v.Number})
		case v.Flag != nil:
			b.set(name, resourceapi.DeviceAttribute{BoolValue: v.Flag})
		}
	}
}

// ForeignName says whether a cloud may give a NIC an attribute of that name: it must be
// domain/name (resource.k8s.io/v1, QualifiedName), of a domain that is not reserved.
func ForeignName(name string) bool {
	domain, id, ok := strings.Cut(name, "/")
	return ok && len(domain) <= resourceapi.DeviceMaxDomainLength && len(id) <= resourceapi.DeviceMaxIDLength &&
		len(validation.IsDNS1123Subdomain(domain)) == 0 && len(content.IsCIdentifier(id)) == 0 &&
		!slices.Contains(reservedDomains, domain)
}

// cloudAttributes are the attributes of a NIC that no other field of the model has.
func (r *reader) cloudAttributes() map[string]model.Attribute {
	var all map[string]model.Attribute
	for name, v := range r.attributes {
		full := string(name)
		if !strings.Contains(full, "/") {
			full = r.domain + "/" + full
		}
		if ownAttributes[full] || !ForeignName(full) {
			continue
		}
		if all == nil {
			all = map[string]model.Attribute{}
		}
		if a := (model.Attribute{Text: v.StringValue, Number: v.IntValue, Flag: v.BoolValue}); a != (model.Attribute{}) {
			all[full] = a
		}
	}
	return all
}
