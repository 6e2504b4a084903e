// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
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

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/explain/cluster"
	"plumbline.dev/plumbline/internal/explain/explaintest"
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
	var held []cluster.DeviceID
	for _, nic := range explaintest.A3NICs {
		held = append(held, cluster.DeviceID{Driver: "dra.net", Pool: "a3-ultragpu-8g-0", Device: nic})
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
	golden(t, "live.txt", out)
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

// Who may not list pods or nodes still gets an answer; who may not list slices
// is told.
func TestForbidden(t *testing.T) {
	client := server(t)
	forbid := func(resource string) {
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(resourceapi.Resource(resource), "", errors.New("no"))
		})
	}
	forbid("nodes")
	forbid("pods")
	out, err := run(t, "", client, "template/pair", "-n", "research")
	if err != nil || !strings.Contains(out, "note: without nodes: ") || !strings.Contains(out, "note: without pods: ") {
		t.Errorf("%v\n%s", err, out)
	}
	forbid("resourceslices")
	if _, err := run(t, "", client, "template/pair", "-n", "research"); err == nil || !strings.Contains(err.Error(), "list ResourceSlices") {
		t.Errorf("%v: want that ResourceSlices are forbidden", err)
	}
}
