// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/lab/scenario"
)

// fields wants every field of a printed object in the one that a command printed, and for
// every element of a printed list one that has its fields.
func (j *Judge) fields(prints string, a scenario.Answer) error {
	want, err := parseFields(prints)
	if err != nil {
		return err
	}
	got, err := parseFields(a.Out)
	if err != nil {
		return err
	}
	if m := j.missing("", want, got); m != nil {
		return m
	}
	return nil
}

// parseFields reads YAML, with numbers as they are written.
func parseFields(text string) (value any, err error) {
	object, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("read objects: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("read objects: %w", err)
	}
	return value, nil
}

// mismatch is a printed field that is missing or has another value.
type mismatch struct{ at, why string }

func (m *mismatch) Error() string { return m.at + " " + m.why }

func (j *Judge) missing(at string, want, got any) *mismatch {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return &mismatch{at, fmt.Sprintf("is %v, printed is an object", got)}
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			below := at + "." + name
			value, there := object[name]
			if !there {
				return &mismatch{below, "is missing"}
			}
			if m := j.missing(below, want[name], value); m != nil {
				return m
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok {
			return &mismatch{at, fmt.Sprintf("is %v, printed is a list", got)}
		}
		for i, element := range want {
			if m := j.missingFrom(fmt.Sprintf("%s[%d]", at, i), element, list); m != nil {
				return m
			}
		}
	default:
		if w, g := fmt.Sprint(want), fmt.Sprint(got); !j.expression(w, false).MatchString(g) {
			return &mismatch{at, fmt.Sprintf("is %s, printed %s", g, w)}
		}
	}
	return nil
}

// missingFrom looks for an element of a list. What it says is of the one that comes nearest.
func (j *Judge) missingFrom(at string, want any, list []any) *mismatch {
	nearest := &mismatch{at, "is missing"}
	for _, got := range list {
		m := j.missing(at, want, got)
		if m == nil {
			return nil
		}
		if len(m.at) > len(nearest.at) {
			nearest = m
		}
	}
	return nearest
}
