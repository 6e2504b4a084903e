// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/model"
)

// sharingServer answers for a cluster of one A3 Ultra, two of whose NICs are shared in four
// slots and 100 Gbit/s each.
func sharingServer(t *testing.T) (kubeconfig string) {
	t.Helper()
	list := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: kind + "List"}
	}
	published := &resourceapi.ResourceSliceList{TypeMeta: list("ResourceSlice")}
	node := explaintest.Machine(t, "a3-ultragpu-8g", "n1")
	explaintest.ShareNICs(node, model.Share{Type: model.ShareMacvlan, Slots: 4, Bandwidth: 100e9}, explaintest.A3NICs[0], explaintest.A3NICs[4])
	for _, s := range node {
		published.Items = append(published.Items, *s)
	}
	classes := &resourceapi.DeviceClassList{TypeMeta: list("DeviceClass")}
	for _, c := range explaintest.ShippedClasses(t) {
		classes.Items = append(classes.Items, *c)
	}
	return serve(t, map[string]any{
		"/api/v1/nodes": &corev1.NodeList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}},
		},
		"/apis/resource.k8s.io/v1/resourceslices":   published,
		"/apis/resource.k8s.io/v1/resourceclaims":   &resourceapi.ResourceClaimList{TypeMeta: list("ResourceClaim")},
		"/apis/resource.k8s.io/v1/deviceclasses":    classes,
		"/apis/resource.k8s.io/v1/devicetaintrules": &resourceapi.DeviceTaintRuleList{TypeMeta: list("DeviceTaintRule")},
	})
}

// What new says of a claim for shared NICs, simulate says of the claim it wrote, and lint has
// nothing to say.
func TestNewOfSharedNICs(t *testing.T) {
	config := sharingServer(t)
	for args, want := range map[string]string{
		"--nics 1 --shared":                                            "8 pods in all",
		"--nics 1 --shared --bandwidth 40G":                            "4 pods in all",
		"--nics 2 --shared --bandwidth 100G --interface-prefix net":    "1 pod in all",
		"--gpus 1 --nics 1 --cpus 4 --shared --pool fabric --template": "4 pods in all",
		"--nics 1 --shared --bandwidth 101G":                           "",
		"--nics 3 --shared":                                            "",
		"--nics 7":                                                     "",
		"--nics 6 --pool fabric":                                       "1 pod in all",
	} {
		manifest, said := told(t, "", append(strings.Fields(args), "--kubeconfig", config)...)
		out, err := run(t, manifest, "simulate", "-f", "-", "--kubeconfig", config)
		switch {
		case want != "" && (err != nil || !strings.Contains(out, want) || said != "fits n1\n"):
			t.Errorf("%s: new says %s simulate %s (%v), want %q", args, said, out, err, want)
		case want == "" && (!errors.Is(err, cmdutil.ErrReported) || !strings.Contains(said, "warning: does not fit n1: ")):
			t.Errorf("%s: new says %s simulate %s (%v), want that it does not fit", args, said, out, err)
		}
		out, err = run(t, manifest, "lint", "-f", "-")
		if err != nil || !strings.Contains(out, " 0 errors, 0 warnings") {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
	manifest, said := told(t, "", strings.Fields("storage --nics 1 --shared --bandwidth 40G --pool fabric --template")...)
	if !strings.Contains(said, "not tried: no machine that plumbline ships shares its NICs") {
		t.Error(said)
	}
	requireGolden(t, "new-shared.yaml", manifest)
}

// A pod that asks for the shared RDMA device plugin's resource, and names no claim, is filled
// in by the claim that the scheduler makes for it.
func TestSimulateOfSharedRDMAResource(t *testing.T) {
	const manifest = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: hca-shared-devices-a}
spec:
  extendedResourceName: rdma/hca_shared_devices_a
  selectors: [{cel: {expression: 'device.driver == "dra.net" && "shared" in device.attributes["dra.net"] && device.attributes["dra.net"].shared'}}]
---
apiVersion: v1
kind: Pod
metadata: {name: rdma-test-pod-1}
spec: {containers: [{name: rdma, image: i, resources: {limits: {rdma/hca_shared_devices_a: 1}}}]}
`
	config := sharingServer(t)
	out, err := run(t, manifest, "simulate", "-f", "-", "--kubeconfig", config)
	if err != nil || !strings.Contains(out, "Pod rdma-test-pod-1\n") || !strings.Contains(out, "8 pods in all") || !strings.Contains(out, "too little left of dra.net/slots") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = run(t, strings.ReplaceAll(manifest, "_a: 1", "_a: 2"), "simulate", "-f", "-", "--kubeconfig", config)
	if err != nil || !strings.Contains(out, "4 pods in all") {
		t.Errorf("%v\n%s", err, out)
	}
}
