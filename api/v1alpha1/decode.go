// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/internal/strictjson"
)

// DecodeNetworkConfig reads one layer of parameters strictly: an unknown or
// repeated field is an error, and so is one of the wrong type. The error is an
// aggregate of *field.Error unless the text is no JSON. Values are checked by
// Validate, after merging.
func DecodeNetworkConfig(text []byte) (*NetworkConfig, error) {
	var c NetworkConfig
	if err := strictjson.Decode(text, &c); err != nil {
		return nil, err
	}
	if err := checkHeader(c.APIVersion, c.Kind, NetworkConfigKind, APIVersion); err != nil {
		return nil, err
	}
	return &c, nil
}

// checkHeader refuses a wrong kind or apiVersion; both may be left out.
func checkHeader(version, kind, wantKind string, versions ...string) error {
	var errs field.ErrorList
	if version != "" {
		errs = oneOf(field.NewPath("apiVersion"), &version, versions...)
	}
	if kind != "" {
		errs = append(errs, oneOf(field.NewPath("kind"), &kind, wantKind)...)
	}
	return errs.ToAggregate()
}
