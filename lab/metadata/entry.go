// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// entry is one entry of the metadata, or a folder of them
// (cloud.google.com/compute/docs/metadata/querying-metadata).
type entry struct {
	// name is the entry's in a path, such as network-interfaces; its key in
	// JSON is the same in camel case.
	name string
	// value is a string or a number; nil in a folder.
	value any
	// list folders have numbers for names, and are arrays in JSON. A list of
	// values is one entry with a line for each.
	list    bool
	folders []entry
}

func leaf(name string, value any) entry         { return entry{name: name, value: value} }
func folder(name string, below ...entry) entry  { return entry{name: name, folders: below} }
func listing(name string, below ...entry) entry { return entry{name: name, list: true, folders: below} }

func (e entry) isFolder() bool { return e.value == nil }

// find follows a path of names; ok is false where there is nothing.
func (e entry) find(path string) (found entry, ok bool) {
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		if e, ok = e.below(name); !ok {
			return entry{}, false
		}
	}
	return e, true
}

func (e entry) below(name string) (entry, bool) {
	for i, f := range e.folders {
		if f.name == name || e.list && strconv.Itoa(i) == name {
			return f, true
		}
	}
	return entry{}, false
}

// text is what a path alone answers: the value, or the names in the folder.
func (e entry) text() string {
	if values, many := e.value.([]string); many {
		return strings.Join(values, "\n")
	}
	if !e.isFolder() {
		return fmt.Sprint(e.value)
	}
	var b strings.Builder
	for i, f := range e.folders {
		name := f.name
		if e.list {
			name = strconv.Itoa(i)
		}
		b.WriteString(name)
		if f.isFolder() {
			b.WriteByte('/')
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// MarshalJSON is what recursive=true answers.
func (e entry) MarshalJSON() ([]byte, error) {
	switch {
	case !e.isFolder():
		return json.Marshal(e.value)
	case e.list:
		return json.Marshal(append([]entry{}, e.folders...))
	}
	object := map[string]entry{}
	for _, f := range e.folders {
		object[camelCase(f.name)] = f
	}
	return json.Marshal(object)
}

// camelCase turns network-interfaces into networkInterfaces.
func camelCase(name string) string {
	words := strings.Split(name, "-")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}
