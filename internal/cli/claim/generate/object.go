// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// object is the claim or template as a person would write it: without the fields
// that only the API server sets, and without those that say its defaults.
func (o *newOptions) object(spec *resourceapi.ResourceClaimSpec) (map[string]any, error) {
	meta := metav1.ObjectMeta{Name: o.name, Namespace: o.namespace}
	withoutDefaults(spec)
	var typed runtime.Object = &resourceapi.ResourceClaim{ObjectMeta: meta, Spec: *spec}
	kind := "ResourceClaim"
	if o.template {
		kind = "ResourceClaimTemplate"
		typed = &resourceapi.ResourceClaimTemplate{ObjectMeta: meta, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: *spec}}
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", kind, err)
	}
	object["apiVersion"], object["kind"] = resourceapi.SchemeGroupVersion.String(), kind
	delete(object, "status")
	dropNull(object)
	if inner, ok := object["spec"].(map[string]any); ok && o.template {
		delete(inner, "metadata")
	}
	return object, nil
}

// withoutDefaults unsets what the API server sets by itself
// (kubernetes/pkg/apis/resource/v1/defaults.go).
func withoutDefaults(spec *resourceapi.ResourceClaimSpec) {
	unset := func(mode *resourceapi.DeviceAllocationMode, count *int64) {
		if *mode == resourceapi.DeviceAllocationModeExactCount {
			*mode = ""
		}
		if *count == 1 {
			*count = 0
		}
	}
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil {
			unset(&r.Exactly.AllocationMode, &r.Exactly.Count)
		}
		for j := range r.FirstAvailable {
			unset(&r.FirstAvailable[j].AllocationMode, &r.FirstAvailable[j].Count)
		}
	}
}

// dropNull leaves out fields that are null, such as creationTimestamp.
func dropNull(object map[string]any) {
	for name, v := range object {
		if v == nil {
			delete(object, name)
		} else if below, ok := v.(map[string]any); ok {
			dropNull(below)
		}
	}
}
