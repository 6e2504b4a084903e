// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package strictjson reads JSON that people wrote into a struct, and says of every field
// that is unknown, repeated or of the wrong type where it is and what would be right.
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	"plumbline.dev/plumbline/internal/suggest"
)

// Decode reads text into a pointer to a struct, whose fields have JSON names and none
// of which is embedded, or into a pointer to a map[string]any. The error is an aggregate of *field.Error unless the text is no
// JSON.
func Decode(text []byte, into any) error {
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

// checkShape compares a JSON value with the Go type that it is decoded into, and finds
// every field that is unknown or of the wrong type. The decoder itself stops at the
// first, and does not say in which element of a list. A field that is null counts as
// left out; in a list or map null is an error.
func checkShape(p *field.Path, v any, t reflect.Type) field.ErrorList {
	if t == quantity {
		return checkQuantity(p, v)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return checkShape(p, v, t.Elem())
	case reflect.Struct:
		object, ok := v.(map[string]any)
		if !ok {
			return wrongType(p, v, "an object")
		}
		return checkObject(p, object, t)
	case reflect.Map:
		object, ok := v.(map[string]any)
		if !ok {
			return wrongType(p, v, "an object")
		}
		var errs field.ErrorList
		for _, k := range slices.Sorted(maps.Keys(object)) {
			errs = append(errs, checkShape(p.Key(k), object[k], t.Elem())...)
		}
		return errs
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			return wrongType(p, v, "a list")
		}
		var errs field.ErrorList
		for i, element := range list {
			errs = append(errs, checkShape(p.Index(i), element, t.Elem())...)
		}
		return errs
	case reflect.Interface:
		return nil
	}
	return checkScalar(p, v, t)
}

func checkObject(p *field.Path, object map[string]any, t reflect.Type) field.ErrorList {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields[name] = t.Field(i).Type
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at := p.Child(name)
		switch known, ok := fields[name]; {
		case !ok:
			errs = append(errs, unknownField(at, name, slices.Sorted(maps.Keys(fields))))
		case object[name] != nil:
			errs = append(errs, checkShape(at, object[name], known)...)
		}
	}
	return errs
}

func unknownField(p *field.Path, name string, known []string) *field.Error {
	hint := "want one of " + strings.Join(known, ", ")
	if meant := suggest.Closest(name, known); meant != "" {
		hint = "did you mean " + meant + "?"
	}
	return &field.Error{Type: field.ErrorTypeForbidden, Field: p.String(), Detail: "no such field: " + hint}
}

func checkScalar(p *field.Path, v any, t reflect.Type) field.ErrorList {
	switch t.Kind() {
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			return wrongType(p, v, "true or false")
		}
	case reflect.String:
		if _, ok := v.(string); !ok {
			return wrongType(p, v, "a string")
		}
	default:
		n, ok := v.(int64)
		if !ok || reflect.Zero(t).OverflowInt(n) {
			return wrongType(p, v, fmt.Sprintf("a whole number of at most %d bits", t.Bits()))
		}
	}
	return nil
}

var quantity = reflect.TypeFor[resource.Quantity]()

// checkQuantity wants what Kubernetes takes for a quantity: a text, around which it takes
// spaces too, or a number as it is.
func checkQuantity(p *field.Path, v any) field.ErrorList {
	const want = "a quantity, such as 10Gi"
	switch v := v.(type) {
	case int64, float64:
		return nil
	case string:
		if _, err := resource.ParseQuantity(strings.TrimSpace(v)); err != nil {
			return field.ErrorList{field.Invalid(p, v, "want "+want)}
		}
		return nil
	}
	return wrongType(p, v, want)
}

func wrongType(p *field.Path, v any, want string) field.ErrorList {
	kind, shown := "", v
	switch v.(type) {
	case nil:
		kind = "null"
	case bool:
		kind = "a boolean"
	case string:
		kind = "a string"
	case int64, float64:
		kind = "a number"
	case []any:
		kind, shown = "a list", field.OmitValueType{}
	default:
		kind, shown = "an object", field.OmitValueType{}
	}
	return field.ErrorList{field.TypeInvalid(p, shown, "is "+kind+", want "+want)}
}
