// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/lab/controlplane"
)

var (
	namespacesV1 = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	policiesV1   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	bindingsV1   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}
	dryRun       = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
)

const claimPolicy = "plumbline-claim-parameters"

// serving starts a control plane that ends with the test, and returns its administrator.
func serving(t testing.TB) *rest.Config {
	t.Helper()
	return servingWith(t, "")
}

// servingWith is serving with feature gates.
func servingWith(t testing.TB, gates string) *rest.Config {
	t.Helper()
	config := controlplane.Config{Hyperkube: hyperkube(t), Dir: t.TempDir(), FeatureGates: gates}
	t.Cleanup(func() {
		if err := controlplane.Down(context.Background(), config.Dir); err != nil {
			t.Error(err)
		}
	})
	cp, err := controlplane.Up(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	admin.QPS = -1
	return admin
}

// TestClaimPolicies tries the shipped policies of claims on a real API server, as a
// default installation has them: nothing is refused, the examples included. That of
// their parameters is tried in every version of the API that is served, and denying
// as well.
func TestClaimPolicies(t *testing.T) {
	restConfig := serving(t)
	said := &warnings{}
	restConfig.WarningHandler = said
	installDefaults(t, restConfig)
	t.Run("names", func(t *testing.T) { tryNameClaims(t, restConfig) })
	t.Run("operator", func(t *testing.T) { tryOperator(t, restConfig) })
	t.Run("host policies", func(t *testing.T) { tryHostPolicies(t, restConfig) })
	t.Run("host policies that disagree", func(t *testing.T) { tryDisagreeingHostPolicies(t, restConfig) })
	t.Run("address pools", func(t *testing.T) { tryAddressPools(t, restConfig) })
	t.Run("operator of address pools", func(t *testing.T) { tryPoolOperator(t, restConfig) })
	client := dynamic.NewForConfigOrDie(restConfig)

	var cases struct {
		Namespaces map[string]map[string]string `json:"namespaces"`
		Cases      []struct {
			Name       string   `json:"name"`
			Namespace  string   `json:"namespace"`
			Driver     string   `json:"driver"`
			Parameters []string `json:"parameters"`
			Refused    string   `json:"refused"`
			Invalid    bool     `json:"invalid"`
		} `json:"cases"`
	}
	text, err := os.ReadFile("../../deploy/testdata/claimpolicy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &cases); err != nil {
		t.Fatal(err)
	}
	for name, labels := range cases.Namespaces {
		makeNamespace(t, client, name, labels)
	}
	awaitPolicy(t, client, func(error) bool { return strings.Contains(said.take(), claimPolicy) })
	requireTypeChecked(t, client, claimPolicy)
	t.Run("examples", func(t *testing.T) { tryExamples(t, restConfig, said) })
	t.Run("docs", func(t *testing.T) { tryDocs(t, restConfig) })
	// As by an administrator's choice.
	deny := []byte(`{"spec":{"validationActions":["Deny"]}}`)

	for _, action := range []string{"Warn", "Deny"} {
		if action == "Deny" {
			if _, err := client.Resource(bindingsV1).Patch(t.Context(), claimPolicy, types.MergePatchType, deny, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			awaitPolicy(t, client, func(err error) bool { return err != nil && strings.Contains(err.Error(), claimPolicy) })
		}
		for _, tc := range cases.Cases {
			namespace, driver := tc.Namespace, tc.Driver
			if namespace == "" {
				namespace = "plain"
			}
			if driver == "" {
				driver = "dra.net"
			}
			for _, version := range []string{"v1", "v1beta1", "v1beta2"} {
				for resource, kind := range map[string]string{"resourceclaims": "ResourceClaim", "resourceclaimtemplates": "ResourceClaimTemplate"} {
					t.Run(action+"/"+tc.Name+"/"+version+"/"+resource, func(t *testing.T) {
						object := claimWith(t, version, kind, driver, tc.Parameters)
						gvr := schema.GroupVersionResource{Group: "resource.k8s.io", Version: version, Resource: resource}
						said.take()
						_, err := client.Resource(gvr).Namespace(namespace).Create(t.Context(), object, dryRun)
						if tc.Invalid && err != nil {
							return
						}
						checkAnswer(t, action, tc.Refused, err, said.take())
					})
				}
			}
		}
	}
}

// checkAnswer says whether the API server warned or refused as it should; empty: neither.
func checkAnswer(t *testing.T, action, want string, err error, warned string) {
	t.Helper()
	if action == "Warn" || want == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		if !strings.Contains(warned, want) || want == "" && strings.Contains(warned, claimPolicy) {
			t.Errorf("warned of %q, want %q", warned, want)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("answer %v, want a refusal with %q", err, want)
	}
}

// awaitPolicy waits until the API server enforces the policy, which shows in its answer
// to a claim that violates it.
func awaitPolicy(t *testing.T, client dynamic.Interface, inForce func(error) bool) {
	t.Helper()
	probe := claimWith(t, "v1", "ResourceClaim", "dra.net", []string{`{"interface":{"hardwareAddr":"02:00:00:00:00:01"}}`})
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(claimsV1).Namespace("plain").Create(ctx, probe, dryRun)
		return inForce(err), nil
	})
	if err != nil {
		t.Fatalf("the policy never said a word about a claim: %v", err)
	}
}

// requireTypeChecked reads what the type checker, which runs in the
// controller-manager, says of a policy.
func requireTypeChecked(t *testing.T, client dynamic.Interface, name string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		policy, err := client.Resource(policiesV1).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		found, checked, err := unstructured.NestedSlice(policy.Object, "status", "typeChecking", "expressionWarnings")
		for _, warning := range found {
			t.Errorf("type checker: %v", warning)
		}
		_, observed, _ := unstructured.NestedInt64(policy.Object, "status", "observedGeneration")
		return checked || observed, err
	})
	if err != nil {
		t.Errorf("the policy %s was never type-checked: %v", name, err)
	}
}

// claimWith is a claim, or a template, with these configurations.
func claimWith(t *testing.T, version, kind, driver string, parameters []string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(claimText(version, kind, driver, parameters))); err != nil {
		t.Fatal(err)
	}
	return object
}

// claimText is what claimWith reads, with the parameters as they are written.
func claimText(version, kind, driver string, parameters []string) string {
	request := `{"name":"nic","exactly":{"deviceClassName":"dra.net"}}`
	if version == "v1beta1" {
		request = `{"name":"nic","deviceClassName":"dra.net"}`
	}
	var configs []string
	for _, text := range parameters {
		configs = append(configs, fmt.Sprintf(`{"opaque":{"driver":%q,"parameters":%s}}`, driver, text))
	}
	spec := fmt.Sprintf(`{"devices":{"requests":[%s],"config":[%s]}}`, request, strings.Join(configs, ","))
	if kind == "ResourceClaimTemplate" {
		spec = `{"spec":` + spec + `}`
	}
	return fmt.Sprintf(`{"apiVersion":"resource.k8s.io/%s","kind":%q,"metadata":{"name":"try"},"spec":%s}`, version, kind, spec)
}
