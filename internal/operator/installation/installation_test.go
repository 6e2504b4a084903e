// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

func agents(wanted int32) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: Agents, Generation: 1},
		Status:     appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: wanted},
	}
}

func pod(node string, status ...any) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent-" + node, Labels: AgentLabels}, Spec: corev1.PodSpec{NodeName: node}}
	for _, s := range status {
		switch s := s.(type) {
		case corev1.PodCondition:
			p.Status.Conditions = append(p.Status.Conditions, s)
		case corev1.ContainerState:
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "agent", State: s})
		}
	}
	return p
}

var (
	isReadyNow = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	pulling    = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}
	ended      = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}
	unplaced   = corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"}
)

// TestReady: what serves counts, not what was deployed.
func TestReady(t *testing.T) {
	leaving := pod("n1", isReadyNow)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	changed := agents(1)
	changed.Generation = 2
	for _, tc := range []struct {
		name   string
		agents *appsv1.DaemonSet
		pods   []corev1.Pod
		want   string
	}{
		{"every node serves", agents(2), []corev1.Pod{pod("n1", isReadyNow), pod("n2", isReadyNow)}, "True AllNodesServe: the agent of every node that is to have one serves"},
		{"no node is to", agents(0), nil, "True NoNodes: no node is to have an agent, by the labels that the drivers want"},
		{"the DaemonSet is gone", nil, []corev1.Pod{pod("n1", isReadyNow)}, "False NoAgents: there is no DaemonSet plumbline-agent: install the chart again, or look who deleted it"},
		{"it has just changed", changed, []corev1.Pod{pod("n1", isReadyNow)}, "False NodesDoNotServe: DaemonSet plumbline-agent has changed, and its nodes are not counted yet"},
		{"no image", agents(2), []corev1.Pod{pod("n1", isReadyNow), pod("n2", pulling)},
			"False NodesDoNotServe: on 1 of 2 nodes no agent serves; n2: pod agent-n2: container agent: ImagePullBackOff: no such image"},
		{"it ends", agents(1), []corev1.Pod{pod("n1", ended)}, "False NodesDoNotServe: on 1 of 1 nodes no agent serves; n1: pod agent-n1: container agent ended with exit code 1: Error"},
		{"no place", agents(1), []corev1.Pod{pod("", unplaced)}, "False NodesDoNotServe: on 1 of 1 nodes no agent serves; (none yet): pod agent- is not scheduled: 0/1 nodes are available"},
		{"it waits", agents(1), []corev1.Pod{pod("n1")},
			"False NodesDoNotServe: on 1 of 1 nodes no agent serves; n1: pod agent-n1 runs and is not ready: plumbline-agent healthz in it says what it waits for"},
		{"no pod", agents(1), nil, "False NodesDoNotServe: on 1 of 1 nodes no agent serves; they have no agent's pod: kubectl describe daemonset plumbline-agent says why"},
		{"an update in which the old one serves", agents(1), []corev1.Pod{pod("n1", isReadyNow), pod("n1", pulling)}, "True AllNodesServe: the agent of every node that is to have one serves"},
		{"one that leaves serves no more", agents(1), []corev1.Pod{leaving},
			"False NodesDoNotServe: on 1 of 1 nodes no agent serves; they have no agent's pod: kubectl describe daemonset plumbline-agent says why"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := (&objects{agents: tc.agents, pods: tc.pods}).summarise(hosts.InstallationStatus{}, "v1", metav1.Now())
			c := s.Conditions[0]
			if got := fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

func sliceOf(driver, node string, tainted, devices int) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + driver}, Spec: resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node}}
	for i := range devices {
		d := resourceapi.Device{Name: fmt.Sprintf("d%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"a": {}}}
		if i < tainted {
			d.Taints = []resourceapi.DeviceTaint{{Key: "k", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

// TestCounts: devices of our drivers' names, and reports.
func TestCounts(t *testing.T) {
	var in objects
	for _, s := range []*resourceapi.ResourceSlice{sliceOf("dra.net", "n1", 1, 8), sliceOf("dra.net", "n2", 0, 2), sliceOf("dra.cpu", "n1", 0, 2), sliceOf("a.example", "n1", 0, 9)} {
		trimmed, err := TrimSlice(s)
		if err != nil {
			t.Fatal(err)
		}
		small := trimmed.(*resourceapi.ResourceSlice)
		if len(small.Spec.Devices) > 0 && small.Spec.Devices[0].Attributes != nil {
			t.Error("attributes are kept")
		}
		in.slices = append(in.slices, *small)
	}
	wrong := hosts.Finding{Severity: hosts.Functional, Verdict: hosts.Wrong}
	slow := hosts.Finding{Severity: hosts.Performance, Verdict: hosts.Wrong}
	in.reports = []hosts.HostReport{{}, {Report: hosts.Report{Findings: []hosts.Finding{slow}}}, {Report: hosts.Report{Findings: []hosts.Finding{slow, wrong}}}}
	for i := range 40 {
		in.pods = append(in.pods, pod(fmt.Sprintf("m%02d", i)))
	}
	s := in.summarise(hosts.InstallationStatus{}, "v1", metav1.Now())
	if diff := cmp.Diff([]hosts.DriverCounts{{Name: "dra.cpu", Nodes: 1, Devices: 2}, {Name: "dra.net", Nodes: 2, Devices: 10, Tainted: 1}}, s.Drivers); diff != "" {
		t.Errorf("drivers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(hosts.NodeCounts{Reported: 3, HostsWrong: 1}, s.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if len(s.NotServing) != maxNotServing || s.NotServing[0].Node != "m00" {
		t.Errorf("%d nodes are listed, the first %s; want %d from m00 on", len(s.NotServing), s.NotServing[0].Node, maxNotServing)
	}
}

var errKilled = errors.New("killed")

// cluster is a client of a node that serves, which fails writes from one on.
type cluster struct {
	client.Client
	writes, failing int
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, resourceapi.AddToScheme, hosts.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{failing: -1}
	write := func() error {
		if c.writes++; c.failing >= 0 && c.writes > c.failing {
			return errKilled
		}
		return nil
	}
	c.Client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&hosts.Installation{}).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.CreateOption) error {
				if err := write(); err != nil {
					return err
				}
				return w.Create(ctx, o, options...)
			},
			SubResourceUpdate: func(ctx context.Context, w client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
				if err := write(); err != nil {
					return err
				}
				return w.SubResource(sub).Update(ctx, o, options...)
			},
		}).Build()
	return c
}

// TestKilledAtEveryWrite: wherever an operator ends, the next one brings the Installation to
// where it is to be, by no more writes than it takes, and then writes nothing.
func TestKilledAtEveryWrite(t *testing.T) {
	const all = 2 // it is made, and its status written
	for at := range all {
		serving := pod("n1", isReadyNow)
		c := newCluster(t, agents(1), &serving, sliceOf("dra.net", "n1", 0, 8))
		c.failing = at
		operator := func() (err error) {
			r := &reconciler{client: c, options: Options{Namespace: "ns", Version: "v1"}, now: metav1.Now}
			for range all + 1 {
				if _, failed := r.Reconcile(t.Context(), the); failed != nil {
					return failed
				}
			}
			return nil
		}
		if err := operator(); !errors.Is(err, errKilled) {
			t.Fatalf("killed at write %d: %v", at, err)
		}
		c.failing, c.writes = -1, 0
		for range 2 {
			if err := operator(); err != nil {
				t.Fatalf("killed at write %d, then: %v", at, err)
			}
		}
		is := &hosts.Installation{}
		if err := c.Get(t.Context(), the.NamespacedName, is); err != nil {
			t.Fatal(err)
		}
		if s := is.Status; s.Version != "v1" || s.Nodes.Serving != 1 || len(s.Drivers) != 1 || s.Conditions[0].Status != metav1.ConditionTrue {
			t.Errorf("killed at write %d, then: status %+v", at, s)
		}
		if c.writes != all-at {
			t.Errorf("killed at write %d, then: %d writes, want %d", at, c.writes, all-at)
		}
	}
}

// TestReconcile: the Installation is made, written when something changed, and made again
// when somebody deletes it.
func TestReconcile(t *testing.T) {
	serving := pod("n1", isReadyNow)
	c := newCluster(t, agents(1), &serving, sliceOf("dra.net", "n1", 0, 8))
	r := &reconciler{client: c, options: Options{Namespace: "ns", Version: "v1"}, now: metav1.Now}
	look := func() *hosts.Installation {
		t.Helper()
		for range 3 {
			if _, err := r.Reconcile(t.Context(), the); err != nil {
				t.Fatal(err)
			}
		}
		is := &hosts.Installation{}
		if err := c.Get(t.Context(), the.NamespacedName, is); err != nil {
			t.Fatal(err)
		}
		return is
	}
	first := look()
	if s := first.Status; s.Version != "v1" || s.Nodes.Serving != 1 || len(s.Drivers) != 1 || s.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("status %+v", s)
	}
	if again := look(); again.ResourceVersion != first.ResourceVersion {
		t.Error("it was written although nothing changed")
	}
	if err := c.Delete(t.Context(), &serving); err != nil {
		t.Fatal(err)
	}
	if s := look().Status; s.Nodes.Serving != 0 || s.Conditions[0].Status != metav1.ConditionFalse {
		t.Errorf("without the pod: status %+v", s)
	}
	if err := c.Delete(t.Context(), &hosts.Installation{ObjectMeta: metav1.ObjectMeta{Name: hosts.InstallationName}}); err != nil {
		t.Fatal(err)
	}
	if s := look().Status; s.Nodes.Wanted != 1 {
		t.Errorf("made again: status %+v", s)
	}
	another := reconcile.Request{NamespacedName: types.NamespacedName{Name: "another"}}
	if _, err := r.Reconcile(t.Context(), another); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), another.NamespacedName, &hosts.Installation{}); !apierrors.IsNotFound(err) {
		t.Errorf("an Installation of another name: %v", err)
	}
}
