// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package docstest_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/docs/docstest"
)

const cpuPage = "cpu.md"

func decodeCPU(t *testing.T, b docstest.Block) *v1alpha1.CPUConfig {
	t.Helper()
	return decodeBy(t, b, v1alpha1.DecodeCPUConfig)
}

func TestEveryCPUExampleIsValid(t *testing.T) {
	for _, b := range docstest.Examples(t, cpuPage) {
		if err := decodeCPU(t, b).Validate(); err != nil {
			t.Errorf("example %s: %v", b.Name, err)
		}
	}
	yamls := 0
	for _, b := range docstest.Blocks(t, cpuPage) {
		if b.Kind != "output" {
			yamls++
		}
	}
	if fences := strings.Count(docstest.Page(t, cpuPage), "```yaml\n"); fences != yamls {
		t.Errorf("%d blocks of YAML and %d names: each is to have one", fences, yamls)
	}
}

func TestEveryCPUFieldIsDocumented(t *testing.T) {
	requireDocumented(t, cpuPage, reflect.TypeFor[v1alpha1.CPUConfig](), func(b docstest.Block) []v1alpha1.FieldValue { return decodeCPU(t, b).FieldValues() })
}

// The values that the page states are those of the schema.
func TestCPUValuesAreTheSchemas(t *testing.T) {
	text, err := os.ReadFile("../schema/cpuconfig.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for path, section := range sections(t, cpuPage) {
		s := root
		for _, name := range strings.Split(path, ".") {
			s = root.resolve(s.Properties[name])
		}
		for _, v := range s.Enum {
			checked++
			if !strings.Contains(section, "`"+v.(string)+"`") {
				t.Errorf("section %s does not say %s", path, v)
			}
		}
	}
	if checked < 8 {
		t.Errorf("only %d values are compared", checked)
	}
}
