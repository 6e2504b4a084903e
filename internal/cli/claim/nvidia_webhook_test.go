// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"os"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/vendorconfig/nvidia"
)

// Parameters that NVIDIA's own webhook refuses are errors, those that it refuses for want
// of a feature gate are warned of, and nothing else is: as TestNVIDIAWebhook of the lab
// recorded its answers. Where lint differs, the case says why.
func TestLintIsAsStrictAsNVIDIAsWebhook(t *testing.T) {
	var cases []struct {
		Name       string  `json:"name"`
		Driver     *string `json:"driver"`
		Parameters string  `json:"parameters"`
		Differs    string  `json:"differs"`
	}
	var answers []struct {
		Name         string `json:"name"`
		WithGates    string `json:"withGates"`
		WithoutGates string `json:"withoutGates"`
	}
	for name, into := range map[string]any{"nvidia-webhook.yaml": &cases, "nvidia-webhook.answers.yaml": &answers} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Fatal(name, err)
		}
	}
	if len(cases) < 100 || len(answers) != len(cases) {
		t.Fatalf("%d cases, %d answers: want an answer to each", len(cases), len(answers))
	}
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			said := answers[i]
			if said.Name != c.Name {
				t.Fatalf("the answer is to %q", said.Name)
			}
			without := cmp.Or(said.WithoutGates, said.WithGates)
			driver := nvidia.Driver
			if c.Driver != nil {
				driver = *c.Driver
			}
			found := lintParameters(driver, c.Parameters)
			takes := found.Errors == 0
			agrees := takes == (said.WithGates == "accepts") && (takes && !wantsGate(found)) == (without == "accepts")
			switch {
			case !agrees && c.Differs == "":
				t.Errorf("%s\nwebhook with its gates: %s\nwebhook without them: %s\nlint: %+v", c.Parameters, said.WithGates, without, found.Findings)
			case agrees && c.Differs != "":
				t.Errorf("lint differs no more: %s", c.Differs)
			}
		})
	}
}

// lintParameters is what is said of a claim with parameters, as they are written.
func lintParameters(driver, parameters string) *report {
	claim := &resourceapi.ResourceClaim{}
	claim.Spec.Devices = resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "any"}}},
		Config: []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(parameters)}},
		}}},
	}
	o := &object{kind: cmdutil.KindClaim, name: "try"}
	o.setClaim(claim)
	in := &inputs{classes: map[string]*object{}}
	in.add(o)
	return lint(in)
}

// wantsGate says whether a warning names a feature gate that the driver's check asks for.
func wantsGate(r *report) bool {
	for _, f := range r.Findings {
		if f.Severity == severityWarning && strings.HasSuffix(f.Field, ".sharing.strategy") && strings.Contains(f.Message, "feature gate") {
			return true
		}
	}
	return false
}
