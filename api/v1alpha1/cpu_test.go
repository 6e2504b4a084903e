// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/api/v1alpha1/configtest"
)

const everyCPUField = `{"apiVersion": "plumbline.dev/v1alpha1", "kind": "CPUConfig", "fullCores": true, "l3": "spread",
	"coreTypes": {"prefer": "e-core", "exclude": ["p-core"]}, "cpuset": "2-5,8"}`

// theirs is a configuration of the driver that ours succeeds, as it is written.
const theirs = `{"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": "2-5"}}`

func readCPU(text []byte) (*v1alpha1.CPUConfig, error) {
	c, err := v1alpha1.DecodeCPUConfig(text)
	if err != nil {
		return nil, err
	}
	return c, c.Validate()
}

func TestCPUConfigAccepted(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "", everyCPUField: "2-5,8 of cpuset", theirs: "2-5 of cpuConfig.cpuset", `{"cpuConfig": {}}`: "", `{"cpuset": ""}`: "",
		`{"coreTypes": {"exclude": []}, "l3": null}`: "", `{"cpuset": "8,2,2-3"}`: "2-3,8 of cpuset", `{"cpuset": "65535"}`: "65535 of cpuset",
	} {
		c, err := readCPU([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		cpus, path := c.CPUs()
		if got := cpus.String() + " of " + path; got != want && (want != "" || !cpus.IsEmpty()) {
			t.Errorf("%s names %s, want %s", text, got, want)
		}
	}
}

func TestCPUConfigRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:                                  `parameters are empty: want an object`,
		`[]`:                                `parameters: Invalid value: is a list, want an object`,
		`{"cpusets": "1"}`:                  `cpusets: Forbidden: no such field: did you mean cpuset?`,
		`{"cpuConfig": {"cpuSet": "1"}}`:    `cpuConfig.cpuSet: Forbidden: no such field: did you mean cpuset?`,
		`{"fullCores": "yes"}`:              `fullCores: Invalid value: "yes": is a string, want true or false`,
		`{"l3": "wide"}`:                    `l3: Unsupported value: "wide": supported values: "pack", "spread"`,
		`{"kind": "GPUConfig"}`:             `kind: Unsupported value: "GPUConfig": supported values: "CPUConfig"`,
		`{"apiVersion": "v1"}`:              `apiVersion: Unsupported value: "v1": supported values: "plumbline.dev/v1alpha1", "v1alpha1"`,
		`{"cpuset": "0-2147483647"}`:        `cpuset: Invalid value: "0-2147483647": "0-2147483647": want numbers below 65536 and ascending ranges of them, such as 2-5,8`,
		`{"cpuConfig": {"cpuset": "3-1"}}`:  `cpuConfig.cpuset: Invalid value: "3-1": "3-1": want numbers`,
		`{"cpuset": "1", "cpuset": "2"}`:    `cpuset: Forbidden: is there twice`,
		`{"coreTypes": {"prefer": "fast"}}`: `coreTypes.prefer: Unsupported value: "fast": supported values: "standard", "p-core", "e-core"`,
		`{"coreTypes": {"exclude": ["e-core", "e-core"]}}`:                   `coreTypes.exclude[1]: Duplicate value: "e-core"`,
		`{"coreTypes": {"exclude": ["e-core", "p-core", "standard"]}}`:       `coreTypes.exclude: Invalid value: "e-core, p-core, standard": leaves no kind of core`,
		`{"coreTypes": {"prefer": "e-core", "exclude": ["e-core"]}}`:         `coreTypes.prefer: Invalid value: "e-core": is excluded`,
		`{"cpuset": "1", "cpuConfig": {"cpuset": "1"}}`:                      `cpuConfig.cpuset: Forbidden: is the older place of cpuset: want one of them`,
		`{"l3": 3, "coreTypes": {"exclude": "e-core"}, "cpuConfig": "2-5"}`:  `coreTypes.exclude: Invalid value: "e-core": is a string, want a list`,
		`{"interface": {"mtu": 9000}}`:                                       `interface: Forbidden: no such field: want one of`,
		`{"l3": "pack", "coreTypes": {"prefer": "p-core", "exclude": [3]}} `: `coreTypes.exclude[0]: Invalid value: 3: is a number, want a string`,
	} {
		_, err := readCPU([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestEffectiveCPUConfig(t *testing.T) {
	for _, test := range []struct {
		name, class, mine, want string
		origins                 v1alpha1.Origins
	}{
		{name: "nothing is said", class: `{}`, mine: `{}`, want: `{"fullCores": false, "l3": "pack"}`,
			origins: v1alpha1.Origins{"fullCores": "default", "l3": "default"}},
		{name: "the claim wins, false too", class: `{"fullCores": true, "l3": "spread"}`, mine: `{"fullCores": false}`,
			want: `{"fullCores": false, "l3": "spread"}`, origins: v1alpha1.Origins{"fullCores": "claim", "l3": "class"}},
		{name: "lists replace", class: `{"coreTypes": {"prefer": "p-core", "exclude": ["e-core"]}}`, mine: `{"coreTypes": {"exclude": []}}`,
			want:    `{"fullCores": false, "l3": "pack", "coreTypes": {"prefer": "p-core", "exclude": []}}`,
			origins: v1alpha1.Origins{"fullCores": "default", "l3": "default", "coreTypes.prefer": "class", "coreTypes.exclude": "claim"}},
		{name: "the older place wins from above", class: `{"cpuset": "1"}`, mine: `{"cpuConfig": {"cpuset": "2"}}`,
			want:    `{"fullCores": false, "l3": "pack", "cpuConfig": {"cpuset": "2"}}`,
			origins: v1alpha1.Origins{"fullCores": "default", "l3": "default", "cpuConfig.cpuset": "claim"}},
		{name: "and loses from below", class: `{"cpuConfig": {"cpuset": "2"}}`, mine: `{"cpuset": ""}`,
			want:    `{"fullCores": false, "l3": "pack", "cpuset": ""}`,
			origins: v1alpha1.Origins{"fullCores": "default", "l3": "default", "cpuset": "claim"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			decode := func(text string) *v1alpha1.CPUConfig {
				c, err := v1alpha1.DecodeCPUConfig([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			got, origins := v1alpha1.EffectiveCPUConfig(v1alpha1.CPULayer{Source: "class", Config: decode(test.class)},
				v1alpha1.CPULayer{Source: "claim", Config: decode(test.mine)})
			if diff := cmp.Diff(decode(test.want), got); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.origins, origins); diff != "" {
				t.Errorf("origins (-want +got):\n%s", diff)
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestGeneratedCPUConfigs(t *testing.T) {
	schema := compileSchema(t, "CPUConfig")
	for _, text := range []string{`{}`, everyCPUField, theirs} {
		if err := conforms(t, schema, []byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for seed := range uint64(seeds / 4) {
		text := generated(t, seed, configtest.ValidCPU)
		c, err := readCPU(text)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		requireCPUSurvives(t, c)
		if err := conforms(t, schema, text); err != nil {
			t.Fatalf("seed %d: %s is valid, but not by the schema: %v", seed, text, err)
		}
	}
	paths, bySchema := map[string]bool{}, 0
	for seed := range uint64(seeds) {
		var path string
		text := generated(t, seed, func(r *rand.Rand) map[string]any {
			doc, at := configtest.InvalidCPU(r)
			path = at
			return doc
		})
		_, err := readCPU(text)
		if !slices.Contains(pathsOf(err), path) {
			t.Fatalf("seed %d: %s\n is refused by %v\nwant a mistake at %s", seed, text, err, path)
		}
		paths[path] = true
		if conforms(t, schema, text) != nil {
			bySchema++
		}
	}
	t.Logf("%d invalid documents with mistakes at %d fields: all refused; the schema alone finds %d", seeds, len(paths), bySchema)
	if bySchema < seeds/2 {
		t.Errorf("the schema finds %d of %d mistakes only", bySchema, seeds)
	}
}

func requireCPUSurvives(t *testing.T, c *v1alpha1.CPUConfig) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := v1alpha1.DecodeCPUConfig(text)
	if err != nil {
		t.Fatalf("%s does not decode again: %v", text, err)
	}
	if !reflect.DeepEqual(c, again) {
		t.Fatalf("%s changed by a round trip (-was +is):\n%s", text, cmp.Diff(c, again))
	}
	effective, origins := v1alpha1.EffectiveCPUConfig(v1alpha1.CPULayer{Source: "claim", Config: c})
	for _, l := range effective.FieldValues() {
		if origins[l.Path] == "" {
			t.Fatalf("%s: nobody is the source of %s", text, l.Path)
		}
	}
}

func FuzzDecodeCPUConfig(f *testing.F) {
	for _, text := range []string{`{}`, everyCPUField, theirs, `{"cpuset": "0-65535,1,2-2"}`, `{"coreTypes": {"exclude": []}}`, `{"cpuset": "\u0000"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := v1alpha1.DecodeCPUConfig(text)
		if err != nil {
			return
		}
		requireCPUSurvives(t, c)
		cpus, _ := c.CPUs()
		if c.Validate() == nil && c.CPUSet != nil && cpus.IsEmpty() != (*c.CPUSet == "") {
			t.Errorf("%q names %s", *c.CPUSet, cpus)
		}
	})
}
