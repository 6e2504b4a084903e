// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
)

// cluster answers the chart's look-ups of device classes.
type cluster struct{ client dynamic.Interface }

func (c cluster) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return c.client.Resource(schema.GroupVersionResource{
		Group: "resource.k8s.io", Version: "v1", Resource: "deviceclasses",
	}), false, nil
}

func deviceClass(name string, annotations map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "resource.k8s.io/v1",
		"kind":       "DeviceClass",
		"metadata":   map[string]any{"name": name, "annotations": annotations},
	}}
}

// TestClassesOnlyWhereAbsent renders as "helm upgrade" does, on a cluster that
// has some classes already.
func TestClassesOnlyWhereAbsent(t *testing.T) {
	existing := []runtime.Object{
		deviceClass("mrdma.google.com", nil),
		deviceClass("dra.cpu", map[string]any{"meta.helm.sh/release-name": "dra-driver-cpu"}),
		deviceClass("dra.net", map[string]any{"meta.helm.sh/release-name": "plumbline"}),
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{
			{Group: "resource.k8s.io", Version: "v1", Resource: "deviceclasses"}: "DeviceClassList",
		}, existing...)
	asked := []any{"mrdma.google.com", "dra.cpu", "dra.net", "gpu.nvidia.com"}
	manifests, err := chartWith("plumbline-system",
		map[string]any{"deviceClasses": map[string]any{"create": asked}},
		func(c *chart.Chart, v chartutil.Values) (map[string]string, error) {
			return engine.RenderWithClientProvider(c, v, cluster{client})
		})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		class, why string
		rendered   bool
	}{
		{"mrdma.google.com", "the cloud made it", false},
		{"dra.cpu", "another release made it", false},
		{"dra.net", "this release made it, and leaving it out would delete it", true},
		{"gpu.nvidia.com", "it is absent", true},
	}
	for _, tc := range tests {
		got := strings.Contains(string(manifests), "kind: DeviceClass\nmetadata:\n  name: "+tc.class+"\n")
		if got != tc.rendered {
			t.Errorf("class %s rendered: %t, want %t: %s", tc.class, got, tc.rendered, tc.why)
		}
	}
}
