// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package docstest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/docs/docstest"
)

const page = "network.md"

func decode(t *testing.T, b docstest.Block) *v1alpha1.NetworkConfig {
	t.Helper()
	return decodeBy(t, b, v1alpha1.DecodeNetworkConfig)
}

// decodeBy reads an example as what decode knows.
func decodeBy[T any](t *testing.T, b docstest.Block, decode func([]byte) (*T, error)) *T {
	t.Helper()
	text, err := yaml.YAMLToJSONStrict([]byte(b.Text))
	if err != nil {
		t.Fatalf("example %s: %v", b.Name, err)
	}
	c, err := decode(text)
	if err != nil {
		t.Fatalf("example %s: %v", b.Name, err)
	}
	return c
}

func TestEveryExampleIsValid(t *testing.T) {
	names := map[string]bool{}
	for _, b := range docstest.Examples(t, page) {
		if err := decode(t, b).Validate(); err != nil {
			t.Errorf("example %s: %v", b.Name, err)
		}
		if names[b.Name] {
			t.Errorf("example %s is there twice", b.Name)
		}
		names[b.Name] = true
	}
	if fences := strings.Count(docstest.Page(t, page), "```yaml\n"); fences != len(docstest.Blocks(t, page))-1 {
		t.Errorf("%d blocks of YAML and %d names: each is to have one", fences, len(docstest.Blocks(t, page))-1)
	}
}

// fieldPaths are all fields that can be set, with [] for an element of a list.
func fieldPaths(path string, t reflect.Type) []string {
	switch t.Kind() {
	case reflect.Pointer:
		return fieldPaths(path, t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return fieldPaths(path+"[]", t.Elem())
		}
	case reflect.Struct:
		var paths []string
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if path == "" && (name == "apiVersion" || name == "kind") {
				continue
			}
			paths = append(paths, fieldPaths(strings.TrimPrefix(path+"."+name, "."), t.Field(i).Type)...)
		}
		return paths
	}
	return []string{path}
}

var (
	heading = regexp.MustCompile("(?m)^### `(.+)`$")
	index   = regexp.MustCompile(`\[\d+\]`)
)

// sections are the texts under the headings of fields.
func sections(t *testing.T, page string) map[string]string {
	t.Helper()
	text := docstest.Page(t, page)
	found := map[string]string{}
	at := heading.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		name := text[m[2]:m[3]]
		if _, twice := found[name]; twice {
			t.Errorf("field %s is documented twice", name)
		}
		found[name] = text[m[1]:end]
	}
	return found
}

// Every field has a section, with an example that sets it.
func TestEveryFieldIsDocumented(t *testing.T) {
	requireDocumented(t, page, reflect.TypeFor[v1alpha1.NetworkConfig](), func(b docstest.Block) []v1alpha1.FieldValue { return decode(t, b).FieldValues() })
}

// Every sysctl that a claim may set is in the table, and no other.
func TestSysctlsAreDocumented(t *testing.T) {
	_, table, found := strings.Cut(sections(t, page)["sysctls"], "| Directory | Names |")
	if !found {
		t.Fatal("there is no table")
	}
	row := regexp.MustCompile("(?m)^\\| `(net\\.\\w+)`(?:, [^|]+)? \\| ([^|]+) \\|$")
	var documented []string
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		for _, name := range strings.Split(m[2], ", ") {
			documented = append(documented, m[1]+"."+strings.Trim(name, "`"))
		}
	}
	slices.Sort(documented)
	if known := v1alpha1.PodSysctls(); !slices.Equal(documented, known) {
		t.Errorf("the page has %q\nwant %q", documented, known)
	}
}

func requireDocumented(t *testing.T, page string, config reflect.Type, fieldValuesOf func(docstest.Block) []v1alpha1.FieldValue) {
	t.Helper()
	documented := sections(t, page)
	known := fieldPaths("", config)
	for name := range documented {
		if !slices.Contains(known, name) {
			t.Errorf("%s is documented and is no field", name)
		}
	}
	for _, path := range known {
		section, ok := documented[path]
		if !ok {
			t.Errorf("field %s has no section", path)
			continue
		}
		shown := false
		for _, b := range docstest.Examples(t, page) {
			if !strings.Contains(section, b.Text) {
				continue
			}
			for _, l := range fieldValuesOf(b) {
				leaf := index.ReplaceAllString(l.Path, "[]")
				shown = shown || leaf == path || strings.HasPrefix(leaf, path+"[")
			}
		}
		if !shown {
			t.Errorf("no example under %s sets it", path)
		}
	}
}

// The limits that the page states are those of the schema.
func TestLimitsAreTheSchemas(t *testing.T) {
	text, err := os.ReadFile("../schema/networkconfig.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for path, section := range sections(t, page) {
		s := root
		for _, name := range strings.Split(strings.ReplaceAll(path, "[]", ""), ".") {
			s = root.resolve(s.Properties[name])
		}
		var wanted []string
		if s.Minimum != nil {
			wanted = append(wanted, fmt.Sprintf("%.0f-%.0f", *s.Minimum, *s.Maximum))
		}
		for _, v := range s.Enum {
			wanted = append(wanted, fmt.Sprint(v))
		}
		for _, w := range wanted {
			checked++
			if !strings.Contains(section, w) {
				t.Errorf("section %s does not say %s", path, w)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d limits are compared", checked)
	}
}

// schema is as much of a JSON schema as the test reads.
type schema struct {
	Ref              string `json:"$ref"`
	Properties       map[string]schema
	Items            *schema
	Enum             []any
	Minimum, Maximum *float64
	Defs             map[string]schema `json:"$defs"`
}

// resolve follows a reference, and a list to its elements.
func (s schema) resolve(p schema) schema {
	if p.Items != nil {
		p = *p.Items
	}
	if name, ok := strings.CutPrefix(p.Ref, "#/$defs/"); ok {
		return s.Defs[name]
	}
	return p
}
