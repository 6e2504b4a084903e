// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/docs/docstest"
)

var (
	claimsV1          = schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}
	serviceAccountsV1 = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
)

// mpiJobs is as much of the MPI operator as the API server needs to take its jobs.
const mpiJobs = `{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "mpijobs.kubeflow.org"},
	"spec": {
		"group": "kubeflow.org", "scope": "Namespaced", "names": {"plural": "mpijobs", "singular": "mpijob", "kind": "MPIJob"},
		"versions": [{"name": "v2beta1", "served": true, "storage": true,
			"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]
	}
}`

// warnings are what the API server says beside its answers.
type warnings struct {
	mu   sync.Mutex
	text []string
}

// HandleWarningHeader is part of rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.text = nil }()
	return strings.Join(w.text, "\n")
}

// applier applies manifests, as kubectl apply --server-side does.
type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newApplier(t testing.TB, config *rest.Config) applier {
	t.Helper()
	groups, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return applier{dynamic.NewForConfigOrDie(config), restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(groups))}
}

// apply puts an object that names no namespace into the given one.
func (a applier) apply(ctx context.Context, object *unstructured.Unstructured, namespace string, dry bool) error {
	kind := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		a.mapper.Reset() // its definition is new
		mapping, err = a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return err
	}
	var objects dynamic.ResourceInterface = a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if object.GetNamespace() != "" {
			namespace = object.GetNamespace()
		}
		objects = a.client.Resource(mapping.Resource).Namespace(namespace)
	}
	options := metav1.ApplyOptions{FieldManager: "kubectl", Force: true}
	if dry {
		options.DryRun = dryRun.DryRun
	}
	_, err = objects.Apply(ctx, object.GetName(), object, options)
	return err
}

// objectsOf decodes a stream of manifests.
func objectsOf(t testing.TB, text []byte) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// installDefaults installs what a user without a value of his own does.
func installDefaults(t testing.TB, config *rest.Config) {
	t.Helper()
	a := newApplier(t, config)
	for _, object := range objectsOf(t, slices.Concat(deploy.Install(), []byte("\n---\n"), deploy.DeviceClasses())) {
		if err := a.apply(t.Context(), object, deploy.Namespace, false); err != nil {
			t.Fatalf("install %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// tryExamples applies every manifest of examples/ by a dry run of the API server, in
// a namespace without labels, on a default installation whose policies are in force.
func tryExamples(t *testing.T, config *rest.Config, said *warnings) {
	t.Helper()
	const namespace = "unlabelled"
	a := newApplier(t, config)
	makePodNamespace(t, a.client, namespace)
	for _, definition := range objectsOf(t, []byte(mpiJobs)) {
		if err := a.apply(t.Context(), definition, "", false); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob("../../examples/*/manifests/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	setting := regexp.MustCompile(`allow\.plumbline\.dev/(\w+)=true`)
	warned := map[string]string{} // the settings, by file
	applied := 0
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objectsOf(t, text) {
			applied++
			said.take()
			if err := dryApply(t.Context(), a, object, namespace); err != nil {
				t.Errorf("%s: %s %s is refused: %v", file, object.GetKind(), object.GetName(), err)
			}
			for _, m := range setting.FindAllStringSubmatch(said.take(), -1) {
				warned[filepath.Base(filepath.Dir(filepath.Dir(file)))] += m[1] + " "
			}
		}
	}
	if diff := cmp.Diff(map[string]string{"tpu-v6e-multi-nic": "disableEbpfPrograms privateFlags "}, warned); diff != "" {
		t.Errorf("settings warned of (-want +got):\n%s", diff)
	}
	if applied < 20 {
		t.Errorf("%d objects applied in %d files: want those of all examples", applied, len(files))
	}
}

// tryDocs applies every whole manifest of the documentation by a dry run of the API server, as
// tryExamples does.
func tryDocs(t *testing.T, config *rest.Config) {
	t.Helper()
	const namespace = "documented"
	a := newApplier(t, config)
	makePodNamespace(t, a.client, namespace)
	applied := 0
	for _, page := range docstest.Pages(t) {
		for _, b := range docstest.Blocks(t, page) {
			if b.Kind != "manifest" || slices.Contains(b.Marks, "partial") {
				continue
			}
			for _, object := range objectsOf(t, []byte(b.Text)) {
				applied++
				if err := dryApply(t.Context(), a, object, namespace); err != nil {
					t.Errorf("docs/%s, manifest %s: %s %s is refused: %v", page, b.Name, object.GetKind(), object.GetName(), err)
				}
			}
		}
	}
	if applied < 20 {
		t.Errorf("%d objects applied: want those of all pages", applied)
	}
}

// dryApply waits for definitions that are established a moment later.
func dryApply(ctx context.Context, a applier, object *unstructured.Unstructured, namespace string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = a.apply(ctx, object, namespace, true)
		return !meta.IsNoMatchError(last) && !apierrors.IsNotFound(last), nil
	})
	if err != nil && last == nil {
		return err
	}
	return last
}

// makePodNamespace makes a namespace without labels, which has what pods want.
func makePodNamespace(t *testing.T, client dynamic.Interface, name string) {
	t.Helper()
	makeNamespace(t, client, name, nil)
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(serviceAccountsV1).Namespace(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	}); err != nil {
		t.Fatalf("the namespace has no ServiceAccount for its pods: %v", err)
	}
}

func makeNamespace(t *testing.T, client dynamic.Interface, name string, labels map[string]string) {
	t.Helper()
	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	namespace.SetName(name)
	namespace.SetLabels(labels)
	if _, err := client.Resource(namespacesV1).Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
