// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/host/ethtool"
)

// notOfTheHost are fields that change nothing by themselves: what they stand for
// is in other fields, refused by this driver, or of the pod's namespace, which ends
// with the pod.
var notOfTheHost = []string{
	"apiVersion", "kind", "profile",
	"interface.type", "interface.mode", "interface.vlanID", "interface.ipam.pool",
	"environment", "container.mounts[].hostPath", "container.mounts[].containerPath", "container.env{}",
	"sysctls{}",
}

// Every field of the configuration is in one of the Entries: otherwise a pod would
// change the host for good.
func TestEveryFieldIsUndone(t *testing.T) {
	fields := leaves(reflect.TypeFor[v1alpha1.NetworkConfig](), "")
	if len(fields) < 30 {
		t.Fatalf("found %d fields only: %q", len(fields), fields)
	}
	known := slices.Clone(notOfTheHost)
	for _, e := range Entries {
		known = append(known, e.Fields...)
		if e.Outcome == Restored && e.differs == nil {
			t.Errorf("%s: is restored, and nobody verifies it", e.What)
		}
		if e.Outcome == Refused && len(e.Fields) > 0 {
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

// Every field of a record's state is in one of the Entries, and every group of ethtool.
func TestEverythingReadIsListed(t *testing.T) {
	var state, ethtools []string
	for _, e := range Entries {
		state = append(state, e.State...)
		ethtools = append(ethtools, e.Ethtool...)
	}
	for _, c := range []struct {
		what         string
		known, there []string
	}{
		{"field of State", state, slices.DeleteFunc(names(reflect.TypeFor[State]()), func(name string) bool { return name == "ethtool" })},
		{"group of ethtool", ethtools, ethtool.SettingGroups()},
	} {
		for _, name := range c.there {
			if n := count(c.known, name); n != 1 {
				t.Errorf("%s %s is on %d lists of Entries, want 1", c.what, name, n)
			}
		}
		for _, name := range c.known {
			if !slices.Contains(c.there, name) {
				t.Errorf("%s is no %s any more", name, c.what)
			}
		}
	}
}

// names are the fields of a struct in JSON, those of embedded ones among them.
func names(t reflect.Type) []string {
	var all []string
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			all = append(all, names(f.Type)...)
		} else {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			all = append(all, name)
		}
	}
	return all
}

// The table for people says what the code does, in the same order.
func TestDocumentedOutcomes(t *testing.T) {
	_, table, ok := strings.Cut(docstest.Page(t, "restored.md"), "\n| What | Outcome | How, or why not |\n|---|---|---|\n")
	if !ok {
		t.Fatal("docs/restored.md has no table of what, outcome and how")
	}
	var documented, listed []string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) < 2 {
			t.Fatalf("docs/restored.md: row %q has no outcome", line)
		}
		documented = append(documented, strings.TrimSpace(cells[0])+": "+strings.Trim(cells[1], " |"))
	}
	for _, e := range Entries {
		listed = append(listed, e.What+": "+string(e.Outcome))
	}
	if diff := cmp.Diff(listed, documented); diff != "" {
		t.Errorf("docs/restored.md (-code +documented):\n%s", diff)
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
