// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

// TestClassesOfWhatIsServed: a class of a driver that is switched off would be in the
// way of the chart of whoever serves it.
func TestClassesOfWhatIsServed(t *testing.T) {
	nics := []string{"dra.net", "dranet", "dranet.net", "mrdma.google.com", "netdev.google.com", "shared.dra.net"}
	for name, tc := range map[string]struct {
		values map[string]any
		want   []string
	}{
		"defaults": {nil, append([]string{"dra.cpu"}, nics...)},
		"no CPUs":  {map[string]any{"drivers": map[string]any{"cpu": map[string]any{"enabled": false}}}, nics},
		"no NICs":  {map[string]any{"drivers": map[string]any{"net": map[string]any{"enabled": false}}}, []string{"dra.cpu"}},
		"observer": {map[string]any{"observe": true}, nil},
		"GPUs": {
			map[string]any{"deviceClasses": map[string]any{"create": []any{"gpu.nvidia.com"}}}, []string{"gpu.nvidia.com"},
		},
	} {
		manifests, err := Chart("plumbline-system", tc.values)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for part := range strings.SplitSeq(string(manifests), "kind: DeviceClass\nmetadata:\n  name: ") {
			class, _, _ := strings.Cut(part, "\n")
			got = append(got, class)
		}
		if diff := cmp.Diff(tc.want, got[1:], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
