// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// derivedClaim is a claim of a GPU and a NIC that derive attributes, written as YAML, and
// of a constraint on both.
func derivedClaim(gpu, nic, constraint string) string {
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a, namespace: training}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com, derivedAttributes: [%s]}}
    - name: nic
      exactly:
        deviceClassName: dranet.net
        selectors: [{cel: {expression: '"ifName" in device.attributes["dra.net"]'}}]
        derivedAttributes: [%s]
    constraints: [%s]
`, gpu, nic, constraint)
}

const (
	onPlace   = "{matchAttribute: derived/place, requests: [gpu, nic]}"
	gateNote  = "note: spec.devices.requests[0].exactly.derivedAttributes: derived attributes need Kubernetes 1.37 and feature gate DRADerivedAttributes"
	ofGPU     = `{name: derived/place, expression: 'device.attributes["resource.kubernetes.io"].pciBusID'}`
	ofNIC     = `{name: derived/place, expression: 'device.attributes["dra.net"].ifName'}`
	ofNothing = ""
)

func TestLintOfDerivedAttributes(t *testing.T) {
	for name, tc := range map[string]struct {
		gpu, nic, constraint string
		says                 []string
		errors, warnings     int
	}{
		"faultless":   {ofGPU, ofNIC, onPlace, []string{gateNote, "an API server without it drops the field without a word"}, 0, 0},
		"none at all": {ofNothing, ofNothing, "{matchAttribute: resource.kubernetes.io/pcieRoot, requests: [gpu, nic]}", nil, 0, 0},
		"does not compile": {ofGPU, `{name: derived/place, expression: "device."}`, onPlace,
			[]string{"requests[1].exactly.derivedAttributes[0].expression", "compilation failed"}, 1, 0},
		"of no type that can be compared": {ofGPU, `{name: derived/place, expression: "1.5"}`, onPlace,
			[]string{"must evaluate to a primitive scalar (string, integer, boolean, semver)"}, 1, 0},
		"without expression": {ofGPU, `{name: derived/place}`, onPlace, []string{"want a CEL expression that makes a value of a device"}, 1, 0},
		"without domain": {ofGPU, ofNIC + `, {name: place, expression: "1"}`, onPlace + ", {matchAttribute: place, requests: [nic]}",
			[]string{"derivedAttributes[1].name", "a fully qualified name must be a domain and a name separated by a slash"}, 1, 0},
		"a name twice": {ofGPU, ofNIC + ", " + ofNIC, onPlace, []string{"derivedAttributes[1].name: Duplicate value"}, 1, 0},
		"not compared": {ofGPU, ofNIC + `, {name: derived/other, expression: "1"}`, onPlace,
			[]string{"must be what a matchAttribute or distinctAttribute constraint on this request compares"}, 1, 0},
		"compared of another request": {ofGPU, ofNIC, "{matchAttribute: derived/place, requests: [gpu]}",
			[]string{"requests[1].exactly.derivedAttributes[0].name"}, 1, 0},
		"values of two types": {`{name: derived/place, expression: "1"}`, `{name: derived/place, expression: '"1"'}`, onPlace,
			[]string{"constraints[0].matchAttribute", "request gpu derives it as int, and request nic as string: values of two types are never equal"}, 1, 0},
		"of two types that are to differ": {`{name: derived/place, expression: "1"}`, `{name: derived/place, expression: '"1"'}`,
			"{distinctAttribute: derived/place, requests: [gpu, nic]}", nil, 0, 0},
		"a list": {ofGPU, `{name: derived/place, expression: '["a"]'}`, onPlace, []string{"lists are compared only with feature gate DRAListTypeAttributes on"}, 0, 1},
		"read unguarded": {ofGPU, `{name: derived/place, expression: 'device.attributes["plumbline.dev"].gpuPCIBusID'}`, onPlace,
			[]string{`plumbline.dev/gpuPCIBusID is read also of devices that may lack it, which ends the scheduling of the pod: want a selector "gpuPCIBusID" in device.attributes["plumbline.dev"]`}, 0, 1},
		"of what no such device has": {`{name: derived/place, expression: 'device.attributes["dra.net"].?ifName.orValue("")'}`, ofNIC, onPlace,
			[]string{"no device of gpu.nvidia.com has dra.net/ifName"}, 0, 1},
		"of a misspelt attribute": {ofGPU, `{name: derived/place, expression: 'device.attributes["dra.net"].?ifNane.orValue("")'}`, onPlace,
			[]string{"did you mean dra.net/ifName?"}, 0, 1},
		"derived by one request": {ofGPU, ofNothing, onPlace,
			[]string{"request nic: it does not derive derived/place as gpu does, and dra.net does not publish it"}, 0, 1},
		"a constraint misspelt": {ofGPU, ofNIC, onPlace + ", {matchAttribute: derived/plaec}", []string{"no request under it derives this attribute: did you mean derived/place?"}, 0, 1},
		"derived by none": {ofNothing, ofNothing, "{matchAttribute: derived/place}",
			[]string{"no request under it derives this attribute, and no driver publishes attributes of this domain"}, 0, 1},
		"too complex": {ofGPU, `{name: derived/place, expression: '[1, 2, 3, 4, 5, 6, 7, 8].map(a, device.driver.split("").map(b, device.driver.split("").map(c, device.driver.split("").map(d, a)))).size()'}`, onPlace,
			[]string{"too complex: it may cost "}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := run(t, derivedClaim(tc.gpu, tc.nic, tc.constraint), "lint", "-f", "-")
			for _, words := range tc.says {
				if !strings.Contains(out, words) {
					t.Errorf("it does not say %q:\n%s", words, out)
				}
			}
			if errors, warnings := strings.Count(out, ": error: "), strings.Count(out, ": warning: "); errors != tc.errors || warnings != tc.warnings {
				t.Errorf("%d errors and %d warnings, want %d and %d:\n%s", errors, warnings, tc.errors, tc.warnings, out)
			}
		})
	}
}

// Subrequests are looked at each by itself, and those of v1beta1 lie in the request.
func TestLintOfDerivedAttributesByShape(t *testing.T) {
	for _, tc := range []struct{ manifest, says string }{
		{`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: a}
spec: {spec: {devices: {
  requests: [{name: nic, firstAvailable: [
    {name: near, deviceClassName: dranet.net, derivedAttributes: [{name: derived/place, expression: "device."}]},
    {name: far, deviceClassName: dranet.net}]}],
  constraints: [{matchAttribute: derived/place, requests: [nic/near]}]}}}
`, "spec.spec.devices.requests[0].firstAvailable[0].derivedAttributes[0].expression"},
		{`
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: a}
spec: {devices: {
  requests: [{name: nic, deviceClassName: dranet.net, derivedAttributes: [{name: derived/place, expression: "device."}]}],
  constraints: [{matchAttribute: derived/place}]}}
`, "spec.devices.requests[0].derivedAttributes[0].expression"},
	} {
		if out, _ := run(t, tc.manifest, "lint", "-f", "-"); !strings.Contains(out, "error: "+tc.says) || strings.Count(out, ": error: ") != 1 {
			t.Errorf("want an error at %s:\n%s", tc.says, out)
		}
	}
}

// The documented claims have nothing to find fault with but that a gate is needed.
func TestLintOfDocumentedDerivedAttributes(t *testing.T) {
	for _, name := range []string{"derived", "data-direct"} {
		out, err := run(t, docstest.Get(t, "nccl.md", "manifest", name).Text, "lint", "-f", "-")
		if err != nil || strings.Contains(out, ": warning: ") || !strings.Contains(out, "0 errors, 0 warnings, 1 note") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// Of what was applied and has lost its derived attributes lint says that the API server
// dropped them; what has kept them needs the scheduler's gate.
func TestLintOfDroppedDerivedAttributes(t *testing.T) {
	claim := func(name string, derived ...resourceapi.DeviceDerivedAttribute) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "training", Name: name, UID: "1"}}
		c.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{"devices":{"requests":[{"exactly":{"derivedAttributes":[{}]}}]}}}`}
		place := resourceapi.FullyQualifiedName("derived/place")
		c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "nic", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gone", DerivedAttributes: derived}}}
		c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &place}}
		return c
	}
	client := fake.NewClientset(claim("dropped"), claim("kept", resourceapi.DeviceDerivedAttribute{Name: "derived/place", Expression: "1"}))
	for name, want := range map[string]string{
		"dropped": "error: spec.devices.requests: Required value: derivedAttributes were applied, and the API server has dropped them",
		"kept":    "the scheduler needs feature gate DRADerivedAttributes too",
	} {
		in, err := readCluster(context.Background(), client, "training", []cmdutil.Reference{{Kind: cmdutil.KindClaim, Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := lint(in).text(&out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, want %q:\n%s", name, err, want, out.String())
		}
	}
}
