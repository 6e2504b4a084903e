// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/api/v1alpha1/configtest"
)

// seeds is how many invalid documents the generator makes.
const seeds = 3000

func generated(t *testing.T, seed uint64, make func(*rand.Rand) map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(make(rand.New(rand.NewPCG(seed, 0))))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// readWhole is what the driver does with a single layer.
func readWhole(text []byte) (*v1alpha1.NetworkConfig, error) {
	c, err := v1alpha1.DecodeNetworkConfig(text)
	if err != nil {
		return nil, err
	}
	return c, v1alpha1.MergeNetworkConfigs(c).Validate()
}

func TestGeneratedAccepted(t *testing.T) {
	for seed := range uint64(seeds / 4) {
		text := generated(t, seed, configtest.Valid)
		c, err := readWhole(text)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		requireSurvives(t, c)
		effective, origins := v1alpha1.EffectiveNetworkConfig(v1alpha1.Layer{Source: "claim", Config: c})
		if err := effective.Validate(); err != nil {
			t.Fatalf("seed %d: %s with the defaults: %v", seed, text, err)
		}
		requireOriginOfEach(t, effective, origins)
	}
}

func TestGeneratedRefused(t *testing.T) {
	distinct, paths := map[string]bool{}, map[string]bool{}
	for seed := range uint64(seeds) {
		var path string
		text := generated(t, seed, func(r *rand.Rand) map[string]any {
			doc, at := configtest.Invalid(r)
			path = at
			return doc
		})
		_, err := readWhole(text)
		if err == nil {
			t.Fatalf("seed %d: %s is accepted, in spite of %s", seed, text, path)
		}
		if !slices.Contains(pathsOf(err), path) {
			t.Fatalf("seed %d: %s\n is refused by %v\nwant a mistake at %s", seed, text, err, path)
		}
		distinct[string(text)], paths[path] = true, true
	}
	const wanted = 1000
	if len(distinct) < wanted {
		t.Errorf("only %d documents differ, want at least %d", len(distinct), wanted)
	}
	t.Logf("%d invalid documents with mistakes at %d fields: all refused", len(distinct), len(paths))
}

// pathsOf are the fields that an error names.
func pathsOf(err error) []string {
	var all utilerrors.Aggregate
	if !errors.As(err, &all) {
		return nil
	}
	var paths []string
	for _, e := range all.Errors() {
		var at *field.Error
		if errors.As(e, &at) {
			paths = append(paths, at.Field)
		}
	}
	return paths
}

// requireSurvives wants a configuration to be the same after writing and reading.
func requireSurvives(t *testing.T, c *v1alpha1.NetworkConfig) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := v1alpha1.DecodeNetworkConfig(text)
	if err != nil {
		t.Fatalf("%s does not decode again: %v", text, err)
	}
	if !reflect.DeepEqual(c, again) {
		t.Fatalf("%s changed by a round trip (-was +is):\n%s", text, cmp.Diff(c, again))
	}
	if was, is := v1alpha1.MergeNetworkConfigs(c).Validate(), v1alpha1.MergeNetworkConfigs(again).Validate(); (was == nil) != (is == nil) {
		t.Fatalf("%s: %v after a round trip, was %v", text, is, was)
	}
}

func FuzzDecodeNetworkConfig(f *testing.F) {
	f.Add([]byte(everything))
	for _, text := range missions {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"interface": {"mtu": 1e9, "name": "\u0000"}, "routes": [{}], "rules": [{}], "neighbors": [{}], "ethtool": {}}`))
	f.Add([]byte(`{"interface": {"addresses": [], "ipam": {}, "vrf": {}}, "routes": [], "rdma": {}, "ethtool": {"features": {}}}`))
	f.Add([]byte(`{"container": {"mounts": [{}, {"hostPath": "/", "containerPath": "/var/run/../a"}], "env": {"": "\u0000", "NCCL_IB_HCA": "="}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := v1alpha1.DecodeNetworkConfig(text)
		if err != nil {
			return
		}
		requireSurvives(t, c)
		if said := len(c.MistakesOfClaim()) > 0; said != (c.Container != nil) {
			t.Errorf("the container's part is refused of a claim: %t, and there: %t", said, c.Container != nil)
		}
		effective, origins := v1alpha1.EffectiveNetworkConfig(v1alpha1.Layer{Source: "claim", Config: c})
		requireOriginOfEach(t, effective, origins)
		_ = effective.ValidateRDMAOnly() // any answer but a crash
		if effective.Validate() == nil && effective.Interface.Name != nil {
			if err := v1alpha1.CheckInterfaceName(*effective.Interface.Name); err != nil {
				t.Errorf("a valid configuration has a bad name: %v", err)
			}
		}
	})
}
