// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	generator "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/api/v1alpha1/configtest"
	"plumbline.dev/plumbline/internal/golden"
)

// published is where the schema of a configuration lies, which editors and other
// programs read.
func published(kind string) string {
	return filepath.Join("..", "..", "docs", "schema", strings.ToLower(kind)+".schema.json")
}

// The schema is made from the types and their comments, so that it cannot say
// something else.
func TestPublishedSchema(t *testing.T) {
	requireSchema(t, "NetworkConfig", &v1alpha1.NetworkConfig{})
	requireSchema(t, "CPUConfig", &v1alpha1.CPUConfig{})
}

func requireSchema(t *testing.T, kind string, config any) {
	t.Helper()
	r := &generator.Reflector{ExpandedStruct: true, RequiredFromJSONSchemaTags: true}
	if err := r.AddGoComments("plumbline.dev/plumbline/api/v1alpha1", ".", generator.WithFullComment()); err != nil {
		t.Fatal(err)
	}
	for name, comment := range r.CommentMap {
		r.CommentMap[name] = strings.Join(strings.Fields(comment), " ")
	}
	s := r.Reflect(config)
	if kind == "NetworkConfig" {
		limitSysctls(t, s)
		limitVariables(t, s)
	}
	s.ID, s.Title = generator.ID("https://plumbline.dev/schema/"+filepath.Base(published(kind))), kind
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, published(kind), text.String())
}

// limitSysctls says of a map's names and values what a tag cannot.
func limitSysctls(t *testing.T, s *generator.Schema) {
	t.Helper()
	sysctls, ok := s.Properties.Get("sysctls")
	if !ok {
		t.Fatal("the schema has no sysctls")
	}
	most, longest := uint64(64), uint64(256)
	names := strings.ReplaceAll(strings.Join(v1alpha1.PodSysctls(), "|"), ".", `\.`)
	sysctls.MaxProperties = &most
	sysctls.PropertyNames = &generator.Schema{
		Pattern: `^(` + names + `|net\.ipv[46]\.(conf\.[A-Za-z0-9_-]{1,15}|neigh\.[A-Za-z0-9_-]{1,15})\.[a-z0-9_]{1,63})$`,
	}
	sysctls.AdditionalProperties.Pattern, sysctls.AdditionalProperties.MaxLength = `^[!-~]+( [!-~]+)*$`, &longest
}

func limitVariables(t *testing.T, s *generator.Schema) {
	t.Helper()
	env, ok := s.Definitions["ContainerConfig"].Properties.Get("env")
	if !ok {
		t.Fatal("the schema has no container.env")
	}
	most, longest := uint64(64), uint64(4096)
	env.MaxProperties = &most
	env.PropertyNames = &generator.Schema{Pattern: "^[A-Za-z_][A-Za-z0-9_]{0,127}$"}
	env.AdditionalProperties.Pattern, env.AdditionalProperties.MaxLength = `^[^\x00-\x1f\x7f-\x9f]*$`, &longest
}

func compileSchema(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(published(kind))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func conforms(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(document)
}

// What the decoder takes the schema takes. What the schema refuses the decoder
// refuses; the decoder refuses more: families, duplicates, and fields that
// exclude each other.
func TestSchemaAgreesWithTheDecoder(t *testing.T) {
	schema := compileSchema(t, "NetworkConfig")
	for _, text := range append([]string{`{}`, everything}, missions["mpi"], missions["tpu"]) {
		if err := conforms(t, schema, []byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for seed := range uint64(1000) {
		text := generated(t, seed, configtest.Valid)
		if err := conforms(t, schema, text); err != nil {
			t.Fatalf("seed %d: %s is valid, but not by the schema: %v", seed, text, err)
		}
	}
	refused := 0
	for seed := range uint64(seeds) {
		text := generated(t, seed, func(r *rand.Rand) map[string]any {
			doc, _ := configtest.Invalid(r)
			return doc
		})
		if conforms(t, schema, text) == nil {
			continue
		}
		refused++
		if _, err := readWhole(text); err == nil {
			t.Fatalf("seed %d: %s is invalid by the schema, but valid", seed, text)
		}
	}
	t.Logf("the schema alone finds %d of %d mistakes", refused, seeds)
	if refused < seeds/2 {
		t.Errorf("the schema finds %d of %d mistakes only", refused, seeds)
	}
}

// What a schema can say it says.
func TestSchemaRefuses(t *testing.T) {
	schema := compileSchema(t, "NetworkConfig")
	for _, text := range []string{
		`[]`,
		`{"interfaces": {}}`,
		`{"apiVersion": "v1"}`,
		`{"interface": {"MTU": 9000}}`,
		`{"interface": {"mtu": "9000"}}`,
		`{"interface": {"mtu": 67}}`,
		`{"interface": {"name": "a b"}}`,
		`{"interface": {"type": "bridge"}}`,
		`{"interface": {"arpIgnore": 4}}`,
		`{"interface": {"addresses": "10.0.0.1/24"}}`,
		`{"routes": [{}]}`,
		`{"routes": [{"destination": "10.0.0.0/8", "scope": 1}]}`,
		`{"rules": [{"source": "10.0.0.0/8"}]}`,
		`{"neighbors": [{"ipAddress": "10.0.0.1"}]}`,
		`{"ethtool": {"features": {"tso": 1}}}`,
		`{"rdma": {"umad": "yes"}}`,
		`{"container": {"mounts": [{"hostPath": "/opt"}]}}`,
		`{"container": {"mounts": [{"hostPath": "/opt", "containerPath": "opt"}]}}`,
		`{"container": {"env": {"A-B": ""}}}`,
		`{"container": {"env": {"A": "a\nb"}}}`,
		`{"sysctls": {"net.core.rmem_max": "1"}}`,
		`{"sysctls": {"net.ipv4.tcp_fin_timeout": 30}}`,
		`{"sysctls": {"net.ipv4.tcp_fin_timeout": "30\n"}}`,
		`{"sysctls": {"net.ipv4.conf.a/b.rp_filter": "1"}}`,
	} {
		if conforms(t, schema, []byte(text)) == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
