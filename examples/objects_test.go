// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	networks "plumbline.dev/plumbline/api/net/v1alpha1"
)

// mpiJob is as much of the MPI operator's type as the document's manifest
// uses.
type mpiJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SlotsPerWorker  int `json:"slotsPerWorker"`
		MPIReplicaSpecs map[string]struct {
			Replicas int                    `json:"replicas"`
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"mpiReplicaSpecs"`
	} `json:"spec"`
}

// kinds are the types of everything the examples hold.
var kinds = map[string]func() any{
	"v1 Pod":                                        func() any { return &corev1.Pod{} },
	"v1 ConfigMap":                                  func() any { return &corev1.ConfigMap{} },
	"apps/v1 StatefulSet":                           func() any { return &appsv1.StatefulSet{} },
	"resource.k8s.io/v1 DeviceClass":                func() any { return &resourcev1.DeviceClass{} },
	"resource.k8s.io/v1 ResourceClaim":              func() any { return &resourcev1.ResourceClaim{} },
	"resource.k8s.io/v1 ResourceClaimTemplate":      func() any { return &resourcev1.ResourceClaimTemplate{} },
	"resource.k8s.io/v1beta1 DeviceClass":           func() any { return &resourcev1beta1.DeviceClass{} },
	"resource.k8s.io/v1beta1 ResourceClaimTemplate": func() any { return &resourcev1beta1.ResourceClaimTemplate{} },
	"kubeflow.org/v2beta1 MPIJob":                   func() any { return &mpiJob{} },
	"plumbline.dev/v1alpha1 HostPolicy":             func() any { return &hosts.HostPolicy{} },
	"plumbline.dev/v1alpha1 NetworkAddressPool":     func() any { return &networks.NetworkAddressPool{} },
}

// build runs kustomize as "kubectl apply -k" does and decodes what comes out
// strictly, by "Kind name".
func build(t *testing.T, folder string) map[string]any {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]any{}
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		name := resource.GetKind() + " " + resource.GetName()
		kind, known := kinds[resource.GetApiVersion()+" "+resource.GetKind()]
		if !known {
			t.Fatalf("%s: %s has the unknown version %s", folder, name, resource.GetApiVersion())
		}
		objects[name] = kind()
		if err := yaml.UnmarshalStrict(text, objects[name]); err != nil {
			t.Fatalf("%s: %s: %v", folder, name, err)
		}
	}
	return objects
}

// TestEverythingDecodesStrictly covers the folder that is no document's text
// too.
func TestEverythingDecodesStrictly(t *testing.T) {
	for _, folder := range append([]string{"network-operator-egx", "exclusive-cpus"}, documents...) {
		for _, part := range []string{"manifests", "lab"} {
			if n := len(build(t, filepath.Join(folder, part))); n == 0 {
				t.Errorf("%s/%s: no objects", folder, part)
			}
		}
	}
}
