// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
)

// DecodeNetworkConfig reads one layer of parameters strictly: an unknown or
// repeated field is an error, and so is one of the wrong type. The error is an
// aggregate of *field.Error unless the text is no JSON. Values are checked by
// Validate, after merging.
func DecodeNetworkConfig(text []byte) (*NetworkConfig, error) {
	var c NetworkConfig
	if err := decodeStrict(text, &c); err != nil {
		return nil, err
	}
	if err := checkHeader(c.APIVersion, c.Kind, NetworkConfigKind, APIVersion); err != nil {
		return nil, err
	}
	return &c, nil
}

// checkHeader wants the kind and one of the versions, where they are said.
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

// decodeStrict reads text into a pointer to a struct.
func decodeStrict(text []byte, into any) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("parameters are empty: want an object, at least {}")
	}
	var document any
	if err := json.UnmarshalCaseSensitivePreserveInts(text, &document); err != nil {
		return fmt.Errorf("parameters are no JSON: %w", err)
	}
	if _, ok := document.(map[string]any); !ok {
		return wrongType(field.NewPath("parameters"), document, "an object").ToAggregate()
	}
	errs := checkShape(nil, document, reflect.TypeOf(into))
	repeated, err := json.UnmarshalStrict(text, into, json.DisallowDuplicateFields)
	if len(errs) == 0 && err != nil {
		return fmt.Errorf("read parameters: %w", err)
	}
	for _, e := range repeated {
		var at interface{ FieldPath() string }
		if errors.As(e, &at) {
			errs = append(errs, &field.Error{Type: field.ErrorTypeForbidden, Field: at.FieldPath(), Detail: "is there twice"})
		}
	}
	return errs.ToAggregate()
}
