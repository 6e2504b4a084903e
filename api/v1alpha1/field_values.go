// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// FieldValue is a field that a configuration sets, and its value.
type FieldValue struct {
	// Path is as in error messages, such as interface.mtu, routes[0].gateway and
	// ethtool.features[tso].
	Path string
	// Value is a string, bool, int32 or int64, or an empty list.
	Value any
}

// FieldValues are the fields that a configuration sets, in the order of the types,
// without apiVersion and kind. They and merging are found by reflection, so that a new
// field cannot be forgotten.
func (c *NetworkConfig) FieldValues() []FieldValue {
	return fieldValuesOf(reflect.ValueOf(c))
}

func fieldValuesOf(config reflect.Value) []FieldValue {
	var values []FieldValue
	walk("", config, func(path string, v reflect.Value) {
		values = append(values, FieldValue{Path: path, Value: v.Interface()})
	})
	return values
}

func walk(path string, v reflect.Value, visit func(string, reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(path, v.Elem(), visit)
		}
	case reflect.Struct:
		eachField(path, v, func(at string, i int) { walk(at, v.Field(i), visit) })
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			visit(path+"["+k.String()+"]", v.MapIndex(k))
		}
	case reflect.Slice:
		if !v.IsNil() && v.Len() == 0 {
			visit(path, v)
		}
		for i := range v.Len() {
			walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i), visit)
		}
	default:
		visit(path, v)
	}
}

// eachField calls a function for the fields of a struct but apiVersion and kind, which
// are the only ones that are strings and not pointers.
func eachField(path string, v reflect.Value, call func(path string, i int)) {
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.String {
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if path != "" {
			name = path + "." + name
		}
		call(name, i)
	}
}
