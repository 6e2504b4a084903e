// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// server is a cluster of two machines. In namespace research a job has all NICs
// of one of them, and a pod waits that wants one of both kinds.
func server(t *testing.T, more ...runtime.Object) *fake.Clientset {
	t.Helper()
	s := explaintest.A3(t, 2)
	var objects []runtime.Object
	for _, slice := range s.Slices {
		objects = append(objects, slice)
	}
	for _, class := range s.Classes {
		objects = append(objects, class)
	}
	var held []snapshot.DeviceID
	for _, nic := range explaintest.A3NICs {
		held = append(held, snapshot.DeviceID{Driver: "dra.net", Pool: "a3-ultragpu-8g-0", Device: nic})
	}
	holder := explaintest.Holding("train", held...)
	holder.Namespace = "research"
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "pair"}}
	template.Spec.Spec = explaintest.Claim("", []resourceapi.DeviceConstraint{explaintest.Match("resource.kubernetes.io/pcieRoot")},
		explaintest.Request("gpu", "gpu.nvidia.com", 1), explaintest.Request("nic", "mrdma.google.com", 1)).Spec
	name := "pair"
	waiting := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "waiting", Labels: map[string]string{"job": "eval"}}}
	waiting.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: &name}}
	waiting.Spec.NodeSelector = map[string]string{"pool": "gpu"}
	cordoned := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a3-ultragpu-8g-1", Labels: map[string]string{"pool": "gpu"}}, Spec: corev1.NodeSpec{Unschedulable: true}}
	busy := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a3-ultragpu-8g-0", Labels: map[string]string{"pool": "gpu"}}}
	control := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "control", Labels: map[string]string{"pool": "none"}}}
	client := fake.NewClientset(append(append(objects, holder, template, waiting, cordoned, busy, control), more...)...)
	client.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{Major: "1", Minor: "36+"}
	return client
}

// A pending pod of a cluster, with the template that its claim will come of.
func TestLive(t *testing.T) {
	out, err := run(t, "", server(t), "pod/waiting", "-n", "research")
	if !errors.Is(err, cmdutil.ErrReported) {
		t.Errorf("%v: want that it does not fit", err)
	}
	clitest.Golden(t, "live.txt", out)
}

// Everything that waits: by namespace, by label, everywhere.
func TestLiveAll(t *testing.T) {
	loose := explaintest.Claim("loose", nil, explaintest.Request("gpu", "gpu.nvidia.com", 1))
	for _, tc := range []struct {
		args []string
		says []string
		not  []string
	}{
		{[]string{"-A"}, []string{"Pod research/waiting does not fit", "ResourceClaim default/loose fits"}, nil},
		{[]string{"-n", "research"}, []string{"Pod research/waiting"}, []string{"loose"}},
		{[]string{"-n", "default"}, []string{"ResourceClaim default/loose fits"}, []string{"waiting"}},
		{[]string{"-A", "-l", "job=eval"}, []string{"Pod research/waiting"}, []string{"loose"}},
		{[]string{"-n", "nowhere"}, []string{"nothing waits for devices"}, nil},
		{[]string{"claim/train", "-n", "research"}, []string{"ResourceClaim research/train is allocated", "r0 has dra.net/pci-0000-91-00-0"}, nil},
		{[]string{"template/pair", "-n", "research", "--node", "a3-ultragpu-8g-1"}, []string{"fits on 1 of 1 node"}, nil},
	} {
		out, err := run(t, "", server(t, loose), tc.args...)
		if err != nil && !errors.Is(err, cmdutil.ErrReported) {
			t.Errorf("%q: %v", tc.args, err)
		}
		for _, words := range tc.says {
			if !strings.Contains(out, words) {
				t.Errorf("%q does not say %q:\n%s", tc.args, words, out)
			}
		}
		for _, words := range tc.not {
			if strings.Contains(out, words) {
				t.Errorf("%q says %q:\n%s", tc.args, words, out)
			}
		}
	}
}

// Claims of files on the nodes of the cluster.
func TestFilesOnLiveNodes(t *testing.T) {
	out, err := run(t, "", server(t), "-f", examples+"gke-device-alignment/manifests/aligned-claim.yaml")
	if err != nil || !strings.Contains(out, "ResourceClaim default/aligned-resource-claim fits on 1 of 3 nodes (cluster)") || strings.Contains(out, "waiting") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A file stands in the place of what the cluster has of its name, also where that
// has its devices already; what it names is looked for in the cluster too.
func TestFileOfWhatIsThere(t *testing.T) {
	for _, allocated := range []bool{false, true} {
		held := explaintest.Claim("mine", nil)
		if allocated {
			held = explaintest.Holding("mine", snapshot.DeviceID{Driver: "gpu.nvidia.com", Pool: "a3-ultragpu-8g-1", Device: "gpu-0"})
		}
		out, err := run(t, `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: mine}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 8}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: research}
spec:
  resourceClaims: [{name: devices, resourceClaimTemplateName: pair}]
  containers: [{name: main, image: none}]
`, server(t, held), "-f", "-", "--node", "a3-ultragpu-8g-1")
		if !errors.Is(err, cmdutil.ErrReported) || strings.Count(out, "ResourceClaim default/mine fits on 1 of 1 node") != 1 ||
			!strings.Contains(out, "Pod research/new does not fit") || strings.Contains(out, "does not exist") {
			t.Errorf("allocated %v: %v\n%s", allocated, err, out)
		}
	}
}

// forbid refuses to list a resource, in one namespace or in all ("") of them.
func forbid(client *fake.Clientset, resource string, but ...string) {
	client.PrependReactor("list", resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
		if slices.Contains(but, a.GetNamespace()) {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(resourceapi.Resource(resource), "", errors.New("no"))
	})
}

// Who may not list pods or nodes still gets an answer, and so does who may list
// the claims of one namespace only. Who may not list slices is told, and nothing
// that may not be read is said to be absent.
func TestForbidden(t *testing.T) {
	client := server(t)
	forbid(client, "nodes")
	forbid(client, "pods")
	forbid(client, "devicetaintrules")
	forbid(client, "resourceclaims", "research")
	out, err := run(t, "", client, "template/pair", "-n", "research")
	for _, note := range []string{
		"note: without nodes: ", "note: without pods: ", "note: without devicetaintrules: ",
		"note: without the resourceclaims of other namespaces: what those hold counts as free here",
	} {
		if err != nil || !strings.Contains(out, note) {
			t.Errorf("want %q, %v\n%s", note, err, out)
		}
	}
	if _, err := run(t, "", client, "pod/waiting", "-n", "research"); err == nil || !strings.Contains(err.Error(), "read Pod research/waiting: pods.resource.k8s.io is forbidden") {
		t.Errorf("%v: want that pods are forbidden", err)
	}
	forbid(client, "resourceslices")
	if _, err := run(t, "", client, "template/pair", "-n", "research"); err == nil || !strings.Contains(err.Error(), "needs a ClusterRole with list of resourceslices") ||
		!strings.Contains(err.Error(), "kubectl events --for pod/NAME") {
		t.Errorf("%v: want that ResourceSlices are forbidden", err)
	}
}

// Clusters before 1.37 have no DeviceTaintRules, and some have no DRA.
func TestOldServers(t *testing.T) {
	client := server(t)
	gone := func(resource string) {
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(resourceapi.Resource(resource), "")
		})
	}
	gone("devicetaintrules")
	if out, err := run(t, "", client, "template/pair", "-n", "research"); err != nil || strings.Contains(out, "note:") {
		t.Errorf("%v\n%s", err, out)
	}
	gone("resourceslices")
	if _, err := run(t, "", client, "template/pair", "-n", "research"); err == nil || !strings.Contains(err.Error(), "the cluster does not serve resource.k8s.io/v1") {
		t.Errorf("%v: want that there is no DRA", err)
	}
}
