// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"plumbline.dev/plumbline/api/v1alpha1"
)

// notOfTheHost are fields that change nothing by themselves: what they stand for
// is in other fields, or refused by this driver.
var notOfTheHost = []string{
	"apiVersion", "kind", "profile",
	"interface.type", "interface.mode", "interface.vlanID", "interface.ipam.pool",
}

// A field that somebody adds to the configuration must be on one of the lists:
// otherwise a pod would change the host for good.
func TestEveryFieldIsUndone(t *testing.T) {
	fields := leaves(reflect.TypeFor[v1alpha1.NetworkConfig](), "")
	if len(fields) < 30 {
		t.Fatalf("found %d fields only: %q", len(fields), fields)
	}
	known := slices.Clone(notOfTheHost)
	for _, e := range Entries {
		known = append(known, e.Fields...)
		if e.Fate == Restored && e.differs == nil {
			t.Errorf("%s: is restored, and nobody verifies it", e.What)
		}
		if e.Fate == Refused && len(e.Fields) > 0 {
			t.Errorf("%s: a configuration changes it by %q, and nothing brings it back", e.What, e.Fields)
		}
	}
	for _, f := range fields {
		switch n := count(known, f); n {
		case 1:
		case 0:
			t.Errorf("field %s is on no list of Entries: who restores what it changes?", f)
		default:
			t.Errorf("field %s is on %d lists", f, n)
		}
	}
	for _, f := range known {
		if !slices.Contains(fields, f) {
			t.Errorf("%s is no field of the configuration any more", f)
		}
	}
}

func count(list []string, s string) int {
	n := 0
	for _, other := range list {
		if other == s {
			n++
		}
	}
	return n
}

// leaves are the JSON paths of all fields that hold a value, [] for a list's
// elements and {} for a map's.
func leaves(t reflect.Type, path string) []string {
	switch t.Kind() {
	case reflect.Pointer:
		return leaves(t.Elem(), path)
	case reflect.Slice:
		return leaves(t.Elem(), path+"[]")
	case reflect.Map:
		return leaves(t.Elem(), path+"{}")
	case reflect.Struct:
		var all []string
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if path != "" {
				name = path + "." + name
			}
			all = append(all, leaves(t.Field(i).Type, name)...)
		}
		return all
	}
	return []string{path}
}
