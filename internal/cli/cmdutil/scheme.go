// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	conversionv1beta1 "k8s.io/dynamic-resource-allocation/api/v1beta1"
	conversionv1beta2 "k8s.io/dynamic-resource-allocation/api/v1beta2"
)

// NewScheme has all versions of the resource API with their conversions to v1, and
// the types that are given beside them.
func NewScheme(more ...func(*runtime.Scheme) error) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(resourceapi.AddToScheme, conversionv1beta1.AddToScheme, conversionv1beta2.AddToScheme)
	builder.Register(more...)
	if err := builder.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the API's types: %w", err)
	}
	return scheme, nil
}
