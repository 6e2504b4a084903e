// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// metadataOf is an object as the metadata client has it.
func metadataOf(apiVersion, kind, namespace, name string, labels map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
	}
}

var own = map[string]string{"app.kubernetes.io/name": "plumbline"}

// clusterOf has kinds that a chart brings, and such objects.
func clusterOf(t *testing.T, core []runtime.Object, meta ...runtime.Object) (cluster, *fake.Clientset, *metadatafake.FakeMetadataClient) {
	t.Helper()
	client := fake.NewClientset(core...)
	d, ok := client.Discovery().(*fakediscovery.FakeDiscovery)
	if !ok {
		t.Fatal("no fake discovery")
	}
	list := metav1.Verbs{"list", "get"}
	d.Resources = []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "namespaces", Kind: "Namespace", Verbs: list}, {Name: "events", Kind: "Event", Verbs: list}, {Name: "bindings", Kind: "Binding", Verbs: metav1.Verbs{"create"}},
		}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "daemonsets", Kind: "DaemonSet", Namespaced: true, Verbs: list}}},
		{GroupVersion: "resource.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "deviceclasses", Kind: "DeviceClass", Verbs: list}}},
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	m := metadatafake.NewSimpleMetadataClient(scheme, meta...)
	return cluster{discovery: client.Discovery(), metadata: m, core: client}, client, m
}

func TestNothingIsLeft(t *testing.T) {
	others := []runtime.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"plumbline.dev/pool": "a"}}},
		&resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.nvidia.com"}},
		&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "waiting"}},
		// DRANET's, which is dra.net too.
		&resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "d", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "dranet"}}}, Spec: resourceapi.ResourceSliceSpec{Driver: "dra.net"},
		},
		&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "of-dranet"}, Status: resourceapi.ResourceClaimStatus{
			Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "dra.net"}}}},
		}},
	}
	c, _, _ := clusterOf(t, others, metadataOf("apps/v1", "DaemonSet", "kube-system", "proxy", nil))
	r, err := c.look(t.Context())
	if err != nil || len(r.Left)+len(r.Unknown) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	var out bytes.Buffer
	if err := r.print(&out); err != nil || out.String() != "nothing of plumbline is left\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestWhatIsLeft(t *testing.T) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "nics"}, Status: resourceapi.ResourceClaimStatus{
		Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Driver: "dra.net"}, {Driver: "dra.net"}, {Driver: "dra.cpu"}, {Driver: "gpu.nvidia.com"},
		}}},
	}}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"plumbline.dev/host-setup": "true"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "Ready"}, {Type: "plumbline.dev/HostReady"}}},
	}
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "n-dra.net-x", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "plumbline-agent"}}},
		Spec:       resourceapi.ResourceSliceSpec{Driver: "dra.net"},
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "plumbline-operator"}}
	c, _, _ := clusterOf(t, []runtime.Object{claim, node, slice, lease},
		metadataOf("apps/v1", "DaemonSet", "plumbline-system", "plumbline-agent", own), metadataOf("v1", "Namespace", "", "plumbline-system", own),
		metadataOf("resource.k8s.io/v1", "DeviceClass", "", "dra.net", own),
		metadataOf("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "hostpolicies.plumbline.dev", nil),
		metadataOf("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "jobs.example.com", nil),
	)
	r, err := c.look(t.Context())
	if err != nil || len(r.Unknown) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	var out bytes.Buffer
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	const want = `customresourcedefinitions.apiextensions.k8s.io   hostpolicies.plumbline.dev
daemonsets.apps                                  plumbline-system/plumbline-agent
deviceclasses.resource.k8s.io                    dra.net
leases.coordination.k8s.io                       plumbline-system/plumbline-operator
namespaces                                       plumbline-system
nodes                                            n                                     has condition plumbline.dev/HostReady, label plumbline.dev/host-setup
resourceclaims.resource.k8s.io                   team/nics                             has devices of dra.cpu and dra.net
resourceslices.resource.k8s.io                   n-dra.net-x                           of dra.net

8 things are left. To take away:
  helm uninstall plumbline -n plumbline-system
  kubectl delete deviceclasses -l app.kubernetes.io/name=plumbline
  kubectl delete lease -n plumbline-system plumbline-operator
  kubectl delete namespace plumbline-system
  plumbline-operator cleanup --kubeconfig ~/.kube/config
  end the pods that hold the claims
  kubectl delete resourceslice n-dra.net-x
`
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	if got := strings.Join(lines, "\n") + "\n"; got != want {
		t.Errorf("prints\n%s\nwant\n%s", got, want)
	}
}

// Who may not look is told so, and not that nothing is there.
func TestForbidden(t *testing.T) {
	c, client, meta := clusterOf(t, nil)
	refuse := func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: a.GetResource().Resource}, "", errors.New("no"))
	}
	client.PrependReactor("list", "nodes", refuse)
	meta.PrependReactor("list", "daemonsets", refuse)
	r, err := c.look(t.Context())
	if err != nil || len(r.Left) > 0 || len(r.Unknown) != 2 || !strings.HasPrefix(r.Unknown[0], "daemonsets.apps: may not be listed") {
		t.Errorf("%+v, %v", r, err)
	}
	var out bytes.Buffer
	if err := r.print(&out); err != nil || strings.Contains(out.String(), "nothing") || !strings.Contains(out.String(), "cannot tell: nodes: may not be listed") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestHost(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := options{host: true, root: root, stateDir: "/var/lib/plumbline", kubelet: "/var/lib/kubelet", cdiDir: "/run/cdi", output: "json"}
	if err := o.run(t.Context(), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "no host's root directory") {
		t.Errorf("no host: %v", err)
	}
	write("proc/version", "")
	if err := os.MkdirAll(filepath.Join(root, "var/lib/plumbline"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("var/lib/kubelet/plugins_registry/gpu.nvidia.com-reg.sock", "")
	listen(t, root, "dra.net-of-dranet-reg.sock")
	var out bytes.Buffer
	if err := o.run(t.Context(), &out); err != nil || out.String() != "{\n  \"left\": []\n}\n" {
		t.Errorf("a clean host: %q, %v", out.String(), err)
	}
	write("var/lib/plumbline/journal/x", "")
	_ = listen(t, root, "dra.net-uid-reg.sock").Close() // the socket stays, as after a kill
	write("run/cdi/others.json", "{}")
	out.Reset()
	err := o.run(t.Context(), &out)
	var code cmdutil.ExitError
	if !errors.As(err, &code) || code.Code != exitLeft {
		t.Errorf("%v", err)
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range r.Left {
		names = append(names, strings.TrimPrefix(l.Name, root))
	}
	if got := strings.Join(names, " "); got != "/var/lib/plumbline/journal /var/lib/kubelet/plugins_registry/dra.net-uid-reg.sock" {
		t.Errorf("left %q, unknown %q", got, r.Unknown)
	}
}

// listen listens below the kubelet's registry, and leaves the socket when it ends.
func listen(t *testing.T, root, name string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(root, "var/lib/kubelet/plugins_registry", name))
	if err != nil {
		t.Fatal(err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                        "helm uninstall plumbline",
		"--check -o xml":          `output format "xml"`,
		"--check --root /host":    "want --host with it",
		"--check plumbline-agent": "unexpected argument",
	} {
		cmd := NewCommand("")
		cmd.SetArgs(strings.Fields(args))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		var usage cmdutil.UsageError
		if err := cmd.ExecuteContext(t.Context()); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}
