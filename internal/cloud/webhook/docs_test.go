// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/golden"
)

const (
	page  = "../../../docs/clouds.md"
	begin = "<!-- examples: begin -->\n"
	end   = "<!-- examples: end -->\n"
)

// examples are what a webhook answers in the documentation.
var examples = answers{
	pathHealth:     `{"cloudProvider": true, "profileProvider": true}`,
	pathAttributes: `{"acme.com/fabric": {"string": "rail-1"}, "acme.com/rack": {"int": 7}, "acme.com/spare": {"bool": false}}`,
	pathConfig:     `{"interface": {"mtu": 8896}}`,
	pathProfile: `{"interface": {"addresses": ["10.7.0.12/24"]},
		"routes": [{"destination": "10.7.0.0/16", "gateway": "10.7.0.1"}]}`,
	pathRelease: ``,
}

// TestPage keeps the examples of the documentation equal to what is sent, and
// to what is understood.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	got, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: no examples between %q and %q", page, begin, end)
	}
	want := exampleSection(t)
	if golden.Update() {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs from what is said (make generate):\n%s", page, diff)
	}
}

// exampleSection talks to a webhook with the examples' answers and writes down
// what each path was asked and answered.
func exampleSection(t *testing.T) string {
	t.Helper()
	var mu sync.Mutex
	asked := map[string]string{}
	w := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		asked[r.URL.Path] = string(body)
		mu.Unlock()
		examples.ServeHTTP(rw, r)
	}))
	config := &v1alpha1.NetworkConfig{Profile: ptr.To("acme.com/pool")}
	config.Interface.MTU = ptr.To[int32](8896)
	found, err := w.Lookup(t.Context(), []cloud.Device{nic})
	if err != nil || found[0].Err != nil || len(found[0].Omitted) > 0 {
		t.Fatalf("the examples are not understood: %v, %v, %q", err, found[0].Err, found[0].Omitted)
	}
	if _, err := w.Profile(t.Context(), cloud.ProfileRequest{Device: nic, Claim: exampleClaim(), Config: config}); err != nil {
		t.Fatal(err)
	}
	if err := w.Release(t.Context(), cloud.ReleaseRequest{Device: nic, ClaimUID: exampleClaim().UID, Config: config}); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, path := range []string{pathHealth, pathAttributes, pathConfig, pathProfile, pathRelease} {
		method := "POST"
		if path == pathHealth {
			method = "GET"
		}
		fmt.Fprintf(&b, "\n`%s %s`\n", method, path)
		for _, part := range []struct{ title, text string }{{"asks", asked[path]}, {"is answered", examples[path]}} {
			if part.text != "" {
				fmt.Fprintf(&b, "\n%s:\n\n```json\n%s\n```\n", part.title, pretty(t, part.text))
			}
		}
	}
	b.WriteString("\n")
	return b.String()
}

// exampleClaim is a claim as the API server has it when it is prepared.
func exampleClaim() *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{}
	c.Namespace, c.Name, c.UID = "training", "worker-0-nic", "5b6c1f0e-2f0a-4c36-9f0f-0d6d6f3b7c11"
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{
		Name: "nic", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "dra.net", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
	}}
	c.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
		Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "dra.net", Parameters: runtime.RawExtension{Raw: []byte(`{"profile":"acme.com/pool"}`)}},
	}}}
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "nic", Driver: "dra.net", Pool: "node-1", Device: nic.Name}},
	}}
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "worker-0", UID: "0d0c8a3e-7c0e-4b7e-8d56-5c1d1f5b8a02"}}
	return c
}

func pretty(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
