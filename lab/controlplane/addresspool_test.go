// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

var addressPoolsV1 = schema.GroupVersionResource{Group: "plumbline.dev", Version: "v1alpha1", Resource: "networkaddresspools"}

// tryAddressPools asks the API server what a NetworkAddressPool may say, and what may change
// of one that is there.
func tryAddressPools(t *testing.T, admin *rest.Config) {
	pools := dynamic.NewForConfigOrDie(admin).Resource(addressPoolsV1)
	for spec, refused := range map[string]string{
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 28}]}": "",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 28, gateway: 192.168.111.1, exclude: [192.168.111.2, 192.168.111.240/28]}, {cidr: \"fd00::/64\", blockSize: 80}], routes: [{destination: 10.0.0.0/8}]}": "",
		"{subnets: []}": "spec.subnets",
		"{subnets: [{cidr: 192.168.111.1/24, blockSize: 28}]}":                                     "cidr: want its first address",
		"{subnets: [{cidr: 192.168.111.0, blockSize: 28}]}":                                        "want a subnet such as 192.168.111.0/24",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 23}]}":                                     "blockSize: want a prefix length",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 33}]}":                                     "blockSize: want a prefix length",
		"{subnets: [{cidr: \"fd00::/64\", blockSize: 81}]}":                                        "at most 65536 blocks",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 28, gateway: 192.168.112.1}]}":             "gateway: want an address of the subnet",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 28, gateway: here}]}":                      "want an address",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 28, exclude: [some]}]}":                    "want an address or a subnet",
		"{subnets: [{cidr: 10.0.0.0/24, blockSize: 28}, {cidr: 10.0.1.0/24, blockSize: 28}]}":      "want one of each family at most",
		"{subnets: [{cidr: 10.0.0.0/24, blockSize: 28}], routes: [{destination: \"everywhere\"}]}": "want a subnet such as 10.0.0.0/8",
		"{subnets: [{cidr: 10.0.0.0/24, blockSize: 28, size: 4}]}":                                 "unknown field \"spec.subnets[0].size\"",
	} {
		strict := dryRun
		strict.FieldValidation = "Strict"
		_, err := pools.Create(t.Context(), addressPool(t, spec), strict)
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v, want %q", spec, err, refused)
		}
	}

	if _, err := pools.Create(t.Context(), addressPool(t, "{subnets: [{cidr: 10.0.0.0/24, blockSize: 28}]}"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for patch, refused := range map[string]string{
		`{"spec": {"subnets": [{"cidr": "10.0.0.0/24", "blockSize": 28, "exclude": ["10.0.0.9"]}]}}`: "",
		`{"spec": {"subnets": [{"cidr": "10.0.0.0/24", "blockSize": 27}]}}`:                          "cidr and blockSize cannot change",
		`{"spec": {"subnets": [{"cidr": "10.0.0.0/23", "blockSize": 28}]}}`:                          "cidr and blockSize cannot change",
	} {
		_, err := pools.Patch(t.Context(), "tried", types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun.DryRun})
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v, want %q", patch, err, refused)
		}
	}
	if err := pools.Delete(t.Context(), "tried", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func addressPool(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	pool := &unstructured.Unstructured{}
	text := "apiVersion: plumbline.dev/v1alpha1\nkind: NetworkAddressPool\nmetadata: {name: tried}\nspec: " + spec
	if err := yaml.Unmarshal([]byte(text), &pool.Object); err != nil {
		t.Fatal(err)
	}
	return pool
}
