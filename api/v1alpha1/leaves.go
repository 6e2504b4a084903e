// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Leaf is a field that is set.
type Leaf struct {
	// Path is as in error messages, such as interface.mtu, routes[0].gateway and
	// ethtool.features[tso].
	Path string
	// Value is a string, bool, int32 or int64, or an empty list.
	Value any
}

// Leaves are the fields that a configuration sets, in the order of the types;
// apiVersion and kind are no settings. Merging and everything that has to know
// every field goes by the types, so that a new field cannot be forgotten.
func (c *NetworkConfig) Leaves() []Leaf {
	return leavesOf(reflect.ValueOf(c))
}

func leavesOf(config reflect.Value) []Leaf {
	var leaves []Leaf
	walk("", config, func(path string, v reflect.Value) {
		leaves = append(leaves, Leaf{Path: path, Value: v.Interface()})
	})
	return leaves
}

func walk(path string, v reflect.Value, leaf func(string, reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(path, v.Elem(), leaf)
		}
	case reflect.Struct:
		eachField(path, v, func(at string, i int) { walk(at, v.Field(i), leaf) })
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			leaf(path+"["+k.String()+"]", v.MapIndex(k))
		}
	case reflect.Slice:
		if !v.IsNil() && v.Len() == 0 {
			leaf(path, v)
		}
		for i := range v.Len() {
			walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i), leaf)
		}
	default:
		leaf(path, v)
	}
}

// eachField calls for the fields of a struct but apiVersion and kind, the only
// ones that cannot be left out.
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
