// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/deploy/render"
)

// kinds are the types of everything the chart may ship.
var kinds = map[string]func() any{
	"v1 Namespace":                                                     func() any { return &corev1.Namespace{} },
	"v1 ServiceAccount":                                                func() any { return &corev1.ServiceAccount{} },
	"v1 Service":                                                       func() any { return &corev1.Service{} },
	"v1 ResourceQuota":                                                 func() any { return &corev1.ResourceQuota{} },
	"apps/v1 Deployment":                                               func() any { return &appsv1.Deployment{} },
	"apps/v1 DaemonSet":                                                func() any { return &appsv1.DaemonSet{} },
	"resource.k8s.io/v1 DeviceClass":                                   func() any { return &resourcev1.DeviceClass{} },
	"rbac.authorization.k8s.io/v1 ClusterRole":                         func() any { return &rbacv1.ClusterRole{} },
	"rbac.authorization.k8s.io/v1 Role":                                func() any { return &rbacv1.Role{} },
	"rbac.authorization.k8s.io/v1 RoleBinding":                         func() any { return &rbacv1.RoleBinding{} },
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding":                  func() any { return &rbacv1.ClusterRoleBinding{} },
	"apiextensions.k8s.io/v1 CustomResourceDefinition":                 func() any { return &apiextensionsv1.CustomResourceDefinition{} },
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":        func() any { return &admissionv1.ValidatingAdmissionPolicy{} },
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": func() any { return &admissionv1.ValidatingAdmissionPolicyBinding{} },
	"admissionregistration.k8s.io/v1 MutatingAdmissionPolicy":          func() any { return &admissionv1.MutatingAdmissionPolicy{} },
	"admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding":   func() any { return &admissionv1.MutatingAdmissionPolicyBinding{} },
}

// decode reads a stream strictly into API types: an unknown kind or field, or
// a key given twice, fails the test.
func decode(t *testing.T, manifests []byte) []any {
	t.Helper()
	var objects []any
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(document, &meta); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if meta == (metav1.TypeMeta{}) {
			continue // the comment that heads a golden
		}
		kind, known := kinds[meta.APIVersion+" "+meta.Kind]
		if !known {
			t.Fatalf("unknown kind %s %s", meta.APIVersion, meta.Kind)
		}
		object := kind()
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

// only returns the one object of a type.
func only[T any](t *testing.T, objects []any) T {
	t.Helper()
	var found []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want 1", len(found), *new(T))
	}
	return found[0]
}

// chartOf renders the chart with values in YAML.
func chartOf(t *testing.T, values string) ([]byte, error) {
	t.Helper()
	parsed := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &parsed); err != nil {
		t.Fatal(err)
	}
	return render.Chart(deploy.Namespace, parsed)
}

func rendered(t *testing.T, values string) []any {
	t.Helper()
	manifests, err := chartOf(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, manifests)
}
