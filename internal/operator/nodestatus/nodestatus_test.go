// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

func finding(check, subject string, s hosts.Severity, v hosts.Verdict) hosts.Finding {
	return hosts.Finding{Check: check, Subject: subject, Severity: s, Verdict: v, Found: "it is so", Source: "sys/x"}
}

// TestConditions: what a report comes to.
func TestConditions(t *testing.T) {
	rdma := []string{"rdma-modules", "dma-buf", "rdma-devices", "rdma-ports", "links"}
	for _, tc := range []struct {
		name   string
		report hosts.Report
		want   string
	}{
		{"a host without RDMA", hosts.Report{Checks: []string{"links", "runtime"}}, "HostReady=True"},
		{"all is well", hosts.Report{Checks: rdma}, "HostReady=True RDMAReady=True GPUDirectReady=True"},
		{"what is slow works", hosts.Report{Checks: rdma, Findings: []hosts.Finding{
			finding("acs", "0000:01:00.0", hosts.Performance, hosts.Wrong), finding("pcie-errors", "", hosts.Information, hosts.Wrong),
		}}, "HostReady=True RDMAReady=True GPUDirectReady=True"},
		{"a port is down", hosts.Report{Checks: rdma, Findings: []hosts.Finding{
			finding("rdma-ports", "mlx5_1", hosts.Functional, hosts.Wrong), finding("rdma-ports", "mlx5_2", hosts.Functional, hosts.Wrong),
		}}, "HostReady=False(rdma-ports: mlx5_1: it is so (sys/x) (and 1 finding more)) RDMAReady=False(rdma-ports: mlx5_1: it is so (sys/x) (and 1 finding more)) GPUDirectReady=True"},
		{"a carrier is lost", hosts.Report{Checks: rdma, Findings: []hosts.Finding{finding("links", "eth1", hosts.Functional, hosts.Wrong)}},
			"HostReady=False(links: eth1: it is so (sys/x)) RDMAReady=True GPUDirectReady=True"},
		{"a port without an address", hosts.Report{Checks: rdma, Findings: []hosts.Finding{finding("gid", "mlx5_1", hosts.Functional, hosts.Wrong)}},
			"HostReady=False(gid: mlx5_1: it is so (sys/x)) RDMAReady=False(gid: mlx5_1: it is so (sys/x)) GPUDirectReady=True"},
		{"a GPU without a driver", hosts.Report{Checks: rdma, Findings: []hosts.Finding{finding("gpu-driver", "0000:05:00.0", hosts.Functional, hosts.Wrong)}},
			"HostReady=False(gpu-driver: 0000:05:00.0: it is so (sys/x)) RDMAReady=True GPUDirectReady=False(gpu-driver: 0000:05:00.0: it is so (sys/x))"},
		{"nobody can tell", hosts.Report{Checks: rdma, Findings: []hosts.Finding{finding("dma-buf", "", hosts.Functional, hosts.Unknown)}},
			"HostReady=Unknown(dma-buf: it is so (sys/x)) RDMAReady=True GPUDirectReady=Unknown(dma-buf: it is so (sys/x))"},
		{"wrong counts more than unknown", hosts.Report{Checks: rdma, Findings: []hosts.Finding{
			finding("runtime", "", hosts.Functional, hosts.Unknown), finding("memlock", "", hosts.Functional, hosts.Wrong),
		}}, "HostReady=False(memlock: it is so (sys/x)) RDMAReady=False(memlock: it is so (sys/x)) GPUDirectReady=True"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var words []string
			for _, c := range conditionsOf(&tc.report) {
				word := strings.TrimPrefix(string(c.Type), prefix) + "=" + string(c.Status)
				if c.Status != corev1.ConditionTrue {
					word += "(" + c.Message + ")"
				}
				words = append(words, word)
			}
			if got := strings.Join(words, " "); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
	// A link's name is what whoever has CAP_NET_ADMIN on the host writes.
	hostile := hosts.Report{Findings: []hosts.Finding{finding("links", "eth\x1b[31m\n"+strings.Repeat("x", 5000), hosts.Functional, hosts.Wrong)}}
	if m := conditionsOf(&hostile)[0].Message; len(m) > maxMessage || strings.ContainsAny(m, "\x1b\n") {
		t.Errorf("message of %d bytes: %q", len(m), m)
	}
}

// TestLabels: Node Feature Discovery's labels, and whose they are.
func TestLabels(t *testing.T) {
	report := hosts.Report{Profile: hosts.HostProfile{Kernel: "6.1.0-44-cloud-amd64", Devices: []hosts.DeviceProfile{
		{Kind: "gpu", ID: "10de:2335", Count: 8}, {Kind: "nic", ID: "15b3:101e", Count: 8}, {Kind: "nic", ID: "8086:1572", Count: 1},
	}}}
	all := map[string]string{labelKernel: "6.1.0-44-cloud-amd64", labelNVIDIA: "true", labelMellanox: "true"}
	if diff := cmp.Diff(all, labelsOf(&report)); diff != "" {
		t.Error(diff)
	}
	if got := labelsOf(&hosts.Report{SetupWanted: true}); !maps.Equal(got, map[string]string{labelSetup: "true"}) {
		t.Errorf("labels %v where there is something to set up", got)
	}
	if got := labelsOf(&hosts.Report{Profile: hosts.HostProfile{Kernel: "6.1.0+custom build"}}); len(got) > 0 {
		t.Errorf("labels %v: no label can have that value", got)
	}
	const own = labelKernel + "," + labelNVIDIA
	for _, tc := range []struct {
		name                string
		labels, annotations map[string]string
		want                map[string]string
		// now are labels and annotations afterwards.
		now, notes map[string]string
	}{
		{"a node without", nil, nil, map[string]string{labelNVIDIA: "true"}, map[string]string{labelNVIDIA: "true"}, map[string]string{ownLabels: labelNVIDIA}},
		{"somebody else's stays", map[string]string{labelNVIDIA: "yes", "a": "b"}, nil, map[string]string{labelNVIDIA: "true", labelKernel: "6"},
			map[string]string{labelNVIDIA: "yes", labelKernel: "6", "a": "b"}, map[string]string{ownLabels: labelKernel}},
		{"what is gone goes", map[string]string{labelNVIDIA: "true", labelKernel: "6"}, map[string]string{ownLabels: own}, map[string]string{labelKernel: "7"},
			map[string]string{labelKernel: "7"}, map[string]string{ownLabels: labelKernel}},
		{"all goes", map[string]string{labelNVIDIA: "true", labelKernel: "6"}, map[string]string{ownLabels: own}, nil, nil, nil},
		{"taken off by hand", nil, map[string]string{ownLabels: own}, map[string]string{labelNVIDIA: "true", labelKernel: "6"},
			map[string]string{labelNVIDIA: "true", labelKernel: "6"}, map[string]string{ownLabels: own}},
		{"Node Feature Discovery came", map[string]string{labelNVIDIA: "true", labelMellanox: "true"},
			map[string]string{ownLabels: labelNVIDIA, "nfd.node.kubernetes.io/feature-labels": "pci-15b3.present"}, all,
			map[string]string{labelMellanox: "true"}, map[string]string{"nfd.node.kubernetes.io/feature-labels": "pci-15b3.present"}},
		{"it knows nothing of our set-up", nil, map[string]string{"nfd.node.kubernetes.io/feature-labels": ""}, map[string]string{labelNVIDIA: "true", labelSetup: "true"},
			map[string]string{labelSetup: "true"}, map[string]string{"nfd.node.kubernetes.io/feature-labels": "", ownLabels: labelSetup}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations}}
			change := labelChange(node, tc.want)
			node.Labels, node.Annotations = applied(node.Labels, change.labels), applied(node.Annotations, change.annotations)
			if diff := cmp.Diff(tc.now, node.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.notes, node.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if again := labelChange(node, tc.want); len(again.labels)+len(again.annotations) > 0 {
				t.Errorf("a second time changes %v %v", again.labels, again.annotations)
			}
		})
	}
}

func applied(to map[string]string, change map[string]*string) map[string]string {
	now := maps.Clone(to)
	for key, value := range change {
		if value == nil {
			delete(now, key)
			continue
		}
		if now == nil {
			now = map[string]string{}
		}
		now[key] = *value
	}
	if len(now) == 0 {
		return nil
	}
	return now
}

// cluster is a client of two nodes, one of which has a report, that counts writes and
// fails those from failing on.
type cluster struct {
	client.Client
	writes, failing int
}

var errKilled = errors.New("killed")

func newCluster(t *testing.T, report *hosts.HostReport) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, hosts.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kubelets := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&corev1.Node{}).WithObjects(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", Labels: map[string]string{"kubernetes.io/hostname": "n1"}}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{kubelets}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2", UID: "u2"}},
	)
	if report != nil {
		b = b.WithObjects(report)
	}
	c := &cluster{failing: -1}
	write := func() error {
		if c.writes++; c.failing >= 0 && c.writes > c.failing {
			return errKilled
		}
		return nil
	}
	c.Client = b.WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if err := write(); err != nil {
				return err
			}
			return w.Patch(ctx, o, p, options...)
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			if err := write(); err != nil {
				return err
			}
			return w.SubResource(sub).Patch(ctx, o, p, options...)
		},
	}).Build()
	return c
}

func (c *cluster) reconcile(t *testing.T, name string) error {
	t.Helper()
	r := &reconciler{client: c, options: Options{Labels: true}, now: time.Now}
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	return err
}

func (c *cluster) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n := &corev1.Node{}
	if err := c.Get(t.Context(), types.NamespacedName{Name: name}, n); err != nil {
		t.Fatal(err)
	}
	return n
}

func ready(n *corev1.Node) string {
	var words []string
	for _, c := range n.Status.Conditions {
		words = append(words, string(c.Type)+"="+string(c.Status))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// condition is a node's of a type.
func condition(t *testing.T, n *corev1.Node, of corev1.NodeConditionType) *corev1.NodeCondition {
	t.Helper()
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == of })
	if i < 0 {
		t.Fatalf("node %s has no condition %s", n.Name, of)
	}
	return &n.Status.Conditions[i]
}

func reportOf(node string, uid types.UID) *hosts.HostReport {
	return &hosts.HostReport{
		ObjectMeta: metav1.ObjectMeta{Name: node, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: uid}}},
		Report: hosts.Report{
			Checks:   []string{"rdma-devices", "links"},
			Findings: []hosts.Finding{finding("links", "eth1", hosts.Functional, hosts.Wrong)},
			Profile:  hosts.HostProfile{Kernel: "6.1.0"},
		},
	}
}

// TestReconcile: conditions and labels come, stay without a write, are put right, and go
// with the report; the kubelet's condition and others' labels stay.
func TestReconcile(t *testing.T) {
	c := newCluster(t, reportOf("n1", "u1"))
	settled := func(what string, writes int, conditions string, labels map[string]string) {
		t.Helper()
		before := c.writes
		for range 2 {
			if err := errors.Join(c.reconcile(t, "n1"), c.reconcile(t, "n2"), c.reconcile(t, "gone")); err != nil {
				t.Fatal(err)
			}
		}
		n := c.node(t, "n1")
		if got := ready(n); got != conditions {
			t.Errorf("%s: conditions %s, want %s", what, got, conditions)
		}
		if diff := cmp.Diff(labels, n.Labels); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", what, diff)
		}
		if c.writes-before != writes {
			t.Errorf("%s: %d writes, want %d", what, c.writes-before, writes)
		}
	}
	const all = "Ready=True plumbline.dev/HostReady=False plumbline.dev/RDMAReady=True"
	labelled := map[string]string{"kubernetes.io/hostname": "n1", labelKernel: "6.1.0"}
	settled("at first", 2, all, labelled)
	since := condition(t, c.node(t, "n1"), HostReady).LastTransitionTime

	edited := c.node(t, "n1")
	condition(t, edited, HostReady).Message, condition(t, edited, RDMAReady).Status = "all is well", corev1.ConditionFalse
	if err := c.Status().Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	edited = c.node(t, "n1")
	delete(edited.Labels, labelKernel)
	if err := c.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	settled("after an edit by hand", 2, all, labelled)
	if now := condition(t, c.node(t, "n1"), HostReady).LastTransitionTime; !now.Equal(&since) {
		t.Errorf("the status did not change, and its time did: %s, was %s", now, since)
	}

	if err := c.Delete(t.Context(), reportOf("n1", "u1")); err != nil {
		t.Fatal(err)
	}
	settled("without a report", 2, "Ready=True", map[string]string{"kubernetes.io/hostname": "n1"})
	if a := c.node(t, "n1").Annotations; len(a) > 0 {
		t.Errorf("annotations %v are left", a)
	}
}

// TestReportOfAnotherNode: a node that was deleted and joined again is not judged by
// what its predecessor's agent found.
func TestReportOfAnotherNode(t *testing.T) {
	c := newCluster(t, reportOf("n1", "u0"))
	if err := c.reconcile(t, "n1"); err != nil {
		t.Fatal(err)
	}
	if got := ready(c.node(t, "n1")); got != "Ready=True" {
		t.Errorf("conditions %s", got)
	}
}

// TestKilledAtEveryWrite: wherever an operator ends, the next one brings a node to where
// it is to be, and Cleanup to where it was.
func TestKilledAtEveryWrite(t *testing.T) {
	for at := range 2 {
		c := newCluster(t, reportOf("n1", "u1"))
		before := c.node(t, "n1")
		c.failing = at
		if err := c.reconcile(t, "n1"); !errors.Is(err, errKilled) {
			t.Fatalf("killed at write %d: %v", at, err)
		}
		c.failing = -1
		if err := c.reconcile(t, "n1"); err != nil {
			t.Fatal(err)
		}
		if got, want := ready(c.node(t, "n1")), "Ready=True plumbline.dev/HostReady=False plumbline.dev/RDMAReady=True"; got != want {
			t.Errorf("killed at write %d, then: %s, want %s", at, got, want)
		}
		c.failing = c.writes + at
		if err := Cleanup(t.Context(), c, &strings.Builder{}); !errors.Is(err, errKilled) {
			t.Fatalf("cleanup killed at write %d: %v", at, err)
		}
		c.failing = -1
		var said strings.Builder
		if err := Cleanup(t.Context(), c, &said); err != nil {
			t.Fatal(err)
		}
		if want := "node n1: conditions and labels taken off\n1 node had conditions or labels of plumbline\n"; said.String() != want {
			t.Errorf("cleanup says %q, want %q", said.String(), want)
		}
		after := c.node(t, "n1")
		after.ResourceVersion = before.ResourceVersion
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("cleanup (-before +after):\n%s", diff)
		}
	}
}

// TestTrim: what is looked at is kept, and nothing else of a node.
func TestTrim(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", UID: "u1", ResourceVersion: "7", Labels: map[string]string{labelKernel: "6", "a": "b"},
			Annotations: map[string]string{ownLabels: labelKernel, "nfd.node.kubernetes.io/x": "y", "c": "d"},
		},
		Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/24", PodCIDRs: []string{"10.0.0.0/24"}},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n1"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.7"}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}, {Type: HostReady}}, Images: []corev1.ContainerImage{{Names: []string{"i"}}},
		},
	}
	got, err := Trim(node)
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", UID: "u1", ResourceVersion: "7", Labels: map[string]string{labelKernel: "6", "a": "b"},
			Annotations: map[string]string{ownLabels: labelKernel, "nfd.node.kubernetes.io/x": "y"},
		},
		Spec: corev1.NodeSpec{PodCIDRs: []string{"10.0.0.0/24"}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: HostReady}}, Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.7"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
