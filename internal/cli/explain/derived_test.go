// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

const derivedPair = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: place}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.nvidia.com
        derivedAttributes: [{name: derived/place, expression: 'device.attributes["resource.kubernetes.io"].pcieRoot'}]
    - name: nic
      exactly:
        deviceClassName: mrdma.google.com
        derivedAttributes: [{name: derived/place, expression: 'device.attributes["resource.kubernetes.io"].pcieRoot'}]
    constraints: [{matchAttribute: derived/place, requests: [gpu, nic]}]
`

// Of claims in files the API server says by a dry run whether it keeps their derived
// attributes; what was said of gates is not asked, and who may not ask is told.
func TestDerivedAttributesOfFiles(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(*resourceapi.ResourceClaim) error
		args   []string
		fits   bool
		says   []string
		asked  bool
	}{
		{
			name: "kept", answer: func(*resourceapi.ResourceClaim) error { return nil }, fits: true, asked: true,
			says: []string{"ResourceClaim default/place fits on", "the API server keeps derivedAttributes, so feature gate DRADerivedAttributes is taken to be on in the scheduler too"},
		},
		{
			name: "dropped", asked: true, answer: func(c *resourceapi.ResourceClaim) error {
				for i := range c.Spec.Devices.Requests {
					c.Spec.Devices.Requests[i].Exactly.DerivedAttributes = nil
				}
				return nil
			},
			says: []string{
				"the API server drops the derivedAttributes of ResourceClaim place without a word", "it has derived attributes, and feature gate DRADerivedAttributes is off",
			},
		},
		{
			name: "not to be asked", asked: true, answer: func(*resourceapi.ResourceClaim) error {
				return apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "", errors.New("no"))
			},
			says: []string{"whether the API server keeps the derivedAttributes of ResourceClaim place is not known", "feature gate DRADerivedAttributes is off"},
		},
		{name: "said", args: []string{"--feature-gates", "DRADerivedAttributes=true"}, fits: true, says: []string{"fits on"}},
		{name: "said to be off", args: []string{"--feature-gates", "DRADerivedAttributes=false"}, says: []string{"feature gate DRADerivedAttributes is off"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := server(t)
			asked := false
			client.PrependReactor("create", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
				create := a.(clienttesting.CreateActionImpl)
				asked = true
				if len(create.CreateOptions.DryRun) != 1 || create.CreateOptions.DryRun[0] != "All" {
					t.Errorf("it is created, and not as a dry run: %v", create.CreateOptions)
				}
				c := create.GetObject().(*resourceapi.ResourceClaim).DeepCopy()
				if tc.answer == nil {
					return true, c, nil
				}
				err := tc.answer(c)
				return true, c, err
			})
			out, err := run(t, derivedPair, client, append(tc.args, "-f", "-")...)
			if err != nil && !errors.Is(err, cmdutil.ErrReported) || (err == nil) != tc.fits || asked != tc.asked {
				t.Errorf("%v, asked: %t", err, asked)
			}
			for _, words := range tc.says {
				if !strings.Contains(out, words) {
					t.Errorf("it does not say %q:\n%s", words, out)
				}
			}
		})
	}
}

// The documented claim of a pair by derived attributes fits on the machine that it is for,
// and without the gate it is said what is missing.
func TestDocumentedDerivedAttributes(t *testing.T) {
	claim := docstest.Get(t, "nccl.md", "manifest", "derived").Text
	const machine = "azure-nd96isr-h100-v5"
	if out, err := run(t, claim, nil, "-f", "-", "--machine", machine, "--feature-gates", "DRADerivedAttributes=true"); err != nil ||
		!strings.Contains(out, "gpu has gpu.nvidia.com/gpu-5") && !strings.Contains(out, "fits on 1 of 1 node") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run(t, claim, nil, "-f", "-", "--machine", machine); !errors.Is(err, cmdutil.ErrReported) || !strings.Contains(out, "switch feature gate DRADerivedAttributes on") {
		t.Errorf("%v\n%s", err, out)
	}
}
