// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// networksAnnotation is where Multus reads which secondary networks a pod is to have.
const networksAnnotation = "k8s.v1.cni.cncf.io/networks"

// findNetworks finds the annotation of Multus in an object: in a pod, or in a template of
// one.
func findNetworks(path *field.Path, v any) []*field.Path {
	var found []*field.Path
	switch v := v.(type) {
	case map[string]any:
		if annotations, ok := v["annotations"].(map[string]any); ok {
			if _, there := annotations[networksAnnotation]; there {
				found = append(found, path.Child("annotations").Key(networksAnnotation))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			found = append(found, findNetworks(path.Child(name), v[name])...)
		}
	case []any:
		for i, element := range v {
			found = append(found, findNetworks(path.Index(i), element)...)
		}
	}
	return found
}

// networks warns of secondary networks that nobody makes: plumbline reads claims and, of the
// limits, extended resources.
func (l linter) networks() {
	for _, at := range l.o.networks {
		l.warning(&field.Error{Type: field.ErrorTypeForbidden, Field: at.String(), Detail: fmt.Sprintf(
			"is read by Multus, and by nobody where NICs are claimed: want a claim of class %s, or a class with extendedResourceName", slicecodec.ClassShared)})
	}
}
