// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
)

// DecodeNetworkConfig reads one layer of parameters strictly: an unknown or
// repeated field is an error. Values are checked by Validate, after merging.
func DecodeNetworkConfig(text []byte) (*NetworkConfig, error) {
	var c NetworkConfig
	if err := decodeStrict(text, &c); err != nil {
		return nil, err
	}
	var errs field.ErrorList
	if c.APIVersion != "" && c.APIVersion != APIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), c.APIVersion, []string{APIVersion}))
	}
	if c.Kind != "" && c.Kind != NetworkConfigKind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), c.Kind, []string{NetworkConfigKind}))
	}
	if err := errs.ToAggregate(); err != nil {
		return nil, err
	}
	return &c, nil
}

func decodeStrict(text []byte, into any) error {
	strict, err := json.UnmarshalStrict(text, into)
	var wrongType *stdjson.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return fmt.Errorf("%s: is a JSON %s, want %s", orRoot(wrongType.Field), wrongType.Value, wanted(wrongType.Type))
	}
	if err != nil {
		return fmt.Errorf("parameters are no JSON object: %w", err)
	}
	// Each names the field by its path.
	return errors.Join(strict...)
}

func orRoot(path string) string {
	if path == "" {
		return "parameters"
	}
	return path
}

// wanted says in JSON's words what a Go type is read from.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number of at most %d bits", t.Bits())
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}
