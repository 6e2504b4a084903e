// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/lab/controlplane"
)

var (
	namespacesV1 = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	policiesV1   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	bindingsV1   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}
	dryRun       = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
)

// TestClaimPolicies tries the shipped policies of claims on a real API server: that
// of their parameters in every version of the API that it serves.
func TestClaimPolicies(t *testing.T) {
	config := controlplane.Config{Hyperkube: hyperkube(t), Dir: t.TempDir()}
	t.Cleanup(func() {
		if err := controlplane.Down(context.Background(), config.Dir); err != nil {
			t.Error(err)
		}
	})
	cp, err := controlplane.Up(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	restConfig, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	restConfig.QPS, restConfig.WarningHandler = -1, rest.NoWarnings{} // old versions are tried on purpose
	t.Run("names", func(t *testing.T) { tryNameClaims(t, restConfig) })
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
		namespace := &unstructured.Unstructured{}
		namespace.SetAPIVersion("v1")
		namespace.SetKind("Namespace")
		namespace.SetName(name)
		namespace.SetLabels(labels)
		if _, err := client.Resource(namespacesV1).Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	installPolicy(t, client)

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
				t.Run(tc.Name+"/"+version+"/"+resource, func(t *testing.T) {
					object := claimWith(t, version, kind, driver, tc.Parameters)
					gvr := schema.GroupVersionResource{Group: "resource.k8s.io", Version: version, Resource: resource}
					_, err := client.Resource(gvr).Namespace(namespace).Create(t.Context(), object, dryRun)
					switch {
					case tc.Refused == "" && err != nil:
						t.Errorf("refused: %v", err)
					case tc.Refused == "", tc.Invalid && err != nil:
					case err == nil || !strings.Contains(err.Error(), tc.Refused):
						t.Errorf("answer %v, want a refusal with %q", err, tc.Refused)
					}
				})
			}
		}
	}
}

// installPolicy creates the policy and its binding, waits until the API server
// asks it, and reads what its type checker says.
func installPolicy(t *testing.T, client dynamic.Interface) {
	t.Helper()
	const name = "plumbline-claim-parameters"
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(deploy.Install()), 4096)
	for {
		var object unstructured.Unstructured
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		resource := policiesV1
		if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
			resource = bindingsV1
			// As by an administrator's choice: a refusal shows what a warning says.
			if err := unstructured.SetNestedStringSlice(object.Object, []string{"Deny"}, "spec", "validationActions"); err != nil {
				t.Fatal(err)
			}
		}
		if object.GetName() != name {
			continue
		}
		if _, err := client.Resource(resource).Create(t.Context(), &object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	probe := claimWith(t, "v1", "ResourceClaim", "dra.net", []string{`{"interface":{"hardwareAddr":"02:00:00:00:00:01"}}`})
	claims := schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(claims).Namespace("plain").Create(ctx, probe, dryRun)
		return err != nil && strings.Contains(err.Error(), name), nil
	})
	if err != nil {
		t.Fatalf("the policy never refused a claim: %v", err)
	}
	// The type checker runs in the controller-manager.
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		policy, err := client.Resource(policiesV1).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		warnings, checked, err := unstructured.NestedSlice(policy.Object, "status", "typeChecking", "expressionWarnings")
		for _, warning := range warnings {
			t.Errorf("type checker: %v", warning)
		}
		_, observed, _ := unstructured.NestedInt64(policy.Object, "status", "observedGeneration")
		return checked || observed, err
	})
	if err != nil {
		t.Errorf("the policy was never type-checked: %v", err)
	}
}

// claimWith is a claim, or a template, with these configurations.
func claimWith(t *testing.T, version, kind, driver string, parameters []string) *unstructured.Unstructured {
	t.Helper()
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
	object := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion":"resource.k8s.io/%s","kind":%q,"metadata":{"name":"try"},"spec":%s}`, version, kind, spec)
	if err := object.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return object
}
