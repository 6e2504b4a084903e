// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/lab/controlplane"
)

var (
	addressPoolsV1  = schema.GroupVersionResource{Group: "plumbline.dev", Version: "v1alpha1", Resource: "networkaddresspools"}
	addressBlocksV1 = schema.GroupVersionResource{Group: "plumbline.dev", Version: "v1alpha1", Resource: "networkaddressblocks"}
)

// tryAddressPools asks the API server what a NetworkAddressPool may say, and what may change
// of one that is there.
func tryAddressPools(t *testing.T, admin *rest.Config) {
	pools := dynamic.NewForConfigOrDie(admin).Resource(addressPoolsV1)
	for spec, refused := range map[string]string{
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 28}]}": "",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 28, gateway: 192.168.111.1, exclude: [192.168.111.2, 192.168.111.240/28]}, {cidr: \"fd00::/64\", blockSize: 80}], routes: [{destination: 10.0.0.0/8}]}": "",
		"{subnets: []}": "spec.subnets",
		"{subnets: [{cidr: 192.168.111.1/24, blockSize: 28}]}":                                                       "cidr: want its first address",
		"{subnets: [{cidr: 192.168.111.0, blockSize: 28}]}":                                                          "want a subnet such as 192.168.111.0/24",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 23}]}":                                                       "blockSize: want a prefix length",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 33}]}":                                                       "blockSize: want a prefix length",
		"{subnets: [{cidr: \"fd00::/64\", blockSize: 81}]}":                                                          "at most 65536 blocks",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 28, gateway: 192.168.112.1}]}":                               "gateway: want an address of the subnet",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 28, gateway: here}]}":                                        "want an address",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 28, exclude: [some]}]}":                                      "want an address or a subnet",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 28, exclude: [192.168.112.2]}]}":                             "exclude: want addresses and subnets of the subnet",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 28, exclude: [192.168.0.0/16]}]}":                            "exclude: want addresses and subnets of the subnet",
		"{subnets: [{cidr: 192.168.111.0/24, blockSize: 28, exclude: [\"fd00::/64\"]}]}":                             "exclude: want addresses and subnets of the subnet",
		"{subnets: [{cidr: 10.0.0.0/24, blockSize: 28}, {cidr: 10.0.1.0/24, blockSize: 28}]}":                        "want one of each family at most",
		"{subnets: [{cidr: 10.0.0.0/24, blockSize: 28}], routes: [{destination: \"fd01::/64\", gateway: 10.0.0.1}]}": "gateway: want an address of the destination's family",
		"{subnets: [{cidr: 10.0.0.0/24, blockSize: 28}], routes: [{destination: \"everywhere\"}]}":                   "want a subnet such as 10.0.0.0/8",
		"{subnets: [{cidr: 10.0.0.0/24, blockSize: 28, size: 4}]}":                                                   "unknown field \"spec.subnets[0].size\"",
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

	both := `{"cidr": "10.0.0.0/24", "blockSize": 28}, {"cidr": "fd00::/64", "blockSize": 80}`
	if _, err := pools.Create(t.Context(), addressPool(t, "{subnets: ["+both+"]}"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	turned := `{"spec": {"subnets": [{"cidr": "fd00::/64", "blockSize": 80}, {"cidr": "10.0.0.0/24", "blockSize": 28}]}}`
	if _, err := pools.Patch(t.Context(), "tried", types.MergePatchType, []byte(turned), metav1.PatchOptions{DryRun: dryRun.DryRun}); err != nil {
		t.Errorf("subnets in another order: %v", err)
	}
	if err := pools.Delete(t.Context(), "tried", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

const pooledNode = "pooled"

// tryPoolOperator has the shipped operator, with the rights that install.yaml gives it, carve
// blocks, refuse pools, and let a pool go whose block is given back.
func tryPoolOperator(t *testing.T, admin *rest.Config) {
	f := &operatorFixture{t: t, client: kubernetes.NewForConfigOrDie(admin), dynamic: dynamic.NewForConfigOrDie(admin)}
	f.kubeconfig = f.accountConfig(admin, deploy.OperatorServiceAccount)
	node, err := f.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pooledNode, Labels: map[string]string{"pooled": "yes"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.report(node)
	pools, blocks := f.dynamic.Resource(addressPoolsV1), f.dynamic.Resource(addressBlocksV1)
	for _, p := range []struct{ name, spec string }{
		{"older", "{nodeSelector: {matchLabels: {pooled: \"yes\"}}, subnets: [{cidr: 10.50.0.0/24, blockSize: 28}, {cidr: \"fd00:50::/64\", blockSize: 80}]}"},
		{"younger", "{nodeSelector: {matchLabels: {pooled: \"yes\"}}, subnets: [{cidr: 10.50.0.0/25, blockSize: 28}]}"}, // by its name, where both are of one second
		{"services", "{nodeSelector: {matchLabels: {pooled: \"yes\"}}, subnets: [{cidr: 10.96.7.0/24, blockSize: 28}]}"},
	} {
		pool := addressPool(t, p.spec)
		pool.SetName(p.name)
		if _, err := pools.Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.start(filepath.Join(t.TempDir(), "operator"))
	says := func(pool, want string) {
		t.Helper()
		f.poll("pool "+pool, want, func(ctx context.Context) (string, error) {
			is, err := pools.Get(ctx, pool, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return "gone", nil
			}
			if err != nil {
				return "", err
			}
			var typed nets.NetworkAddressPool
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(is.Object, &typed); err != nil || len(typed.Status.Conditions) != 1 {
				return "", err
			}
			return typed.Status.Conditions[0].Reason + ": " + typed.Status.Conditions[0].Message, nil
		})
	}
	// giveBack answers for the node's agent.
	giveBack := func(block string) {
		t.Helper()
		patch := []byte(`{"status": {"used": 0, "givenBack": true}}`)
		if _, err := blocks.Patch(t.Context(), block, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	says("services", "Invalid: subnet 10.96.7.0/24 overlaps "+controlplane.ServiceCIDR+" of ServiceCIDR kubernetes: no more blocks are made")
	says("younger", "Invalid: subnet 10.50.0.0/25 overlaps 10.50.0.0/24 of pool older: no more blocks are made")
	says("older", "Carved: 1 nodes have a block")
	if got, want := printed(t, f.client, "older"), "older 10.50.0.0/24,fd00:50::/64 True 1 15 0"; got != want {
		t.Errorf("kubectl get prints %q, want %q", got, want)
	}
	if err := pools.Delete(t.Context(), "older", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	says("older", "Deleting: waits for the claims that have addresses: "+pooledNode)
	giveBack("older.0")
	says("older", "gone")
	says("younger", "Carved: 1 nodes have a block")
	for _, pool := range []string{"younger", "services"} {
		if err := pools.Delete(t.Context(), pool, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	says("younger", "Deleting: waits for the claims that have addresses: "+pooledNode)
	giveBack("younger.0")
	says("younger", "gone")
	says("services", "gone")
	if err := f.client.CoreV1().Nodes().Delete(t.Context(), pooledNode, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.dynamic.Resource(reportsV1alpha1).Delete(t.Context(), pooledNode, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// printed is what kubectl get prints of a pool, but its age.
func printed(t *testing.T, client *kubernetes.Clientset, pool string) string {
	t.Helper()
	text, err := client.RESTClient().Get().AbsPath("/apis/plumbline.dev/v1alpha1/networkaddresspools/"+pool).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	var table metav1.Table
	if err == nil {
		err = json.Unmarshal(text, &table)
	}
	if err != nil || len(table.Rows) != 1 {
		t.Fatalf("%d rows: %v", len(table.Rows), err)
	}
	var words []string
	for i, cell := range table.Rows[0].Cells {
		if table.ColumnDefinitions[i].Name != "Age" {
			words = append(words, fmt.Sprint(cell))
		}
	}
	return strings.Join(words, " ")
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
