// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// TestOperatorPolicy: of a node the operator changes its own conditions and labels.
func TestOperatorPolicy(t *testing.T) {
	const operator = "system:serviceaccount:plumbline-system:plumbline-operator"
	node := func(change func(n *corev1.Node)) *corev1.Node {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"kubernetes.io/hostname": "n1"}, Annotations: map[string]string{"a": "b"}},
			Spec:       corev1.NodeSpec{PodCIDR: "10.0.0.0/24"},
			Status: corev1.NodeStatus{
				Capacity:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: "plumbline.dev/HostReady", Status: corev1.ConditionTrue}},
				Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
			},
		}
		if change != nil {
			change(n)
		}
		return n
	}
	policy := compile(t, shipped[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy", "plumbline-operator-own-labels").Spec)
	for _, tc := range []struct {
		name, user string
		change     func(n *corev1.Node)
		want       string
	}{
		{name: "nothing"},
		{name: "labels of its own", change: func(n *corev1.Node) {
			n.Labels["feature.node.kubernetes.io/pci-10de.present"] = "true"
			n.Annotations["plumbline.dev/feature-labels"] = "feature.node.kubernetes.io/pci-10de.present"
		}},
		{name: "a condition of its own", change: func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionFalse }},
		{name: "a new one", change: func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "plumbline.dev/RDMAReady"})
		}},
		{name: "its own goes", change: func(n *corev1.Node) { n.Status.Conditions = n.Status.Conditions[:1] }},
		{name: "the kubelet's", change: func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, want: "status.conditions"},
		{name: "the kubelet's goes", change: func(n *corev1.Node) { n.Status.Conditions = n.Status.Conditions[1:] }, want: "status.conditions"},
		{name: "another label", change: func(n *corev1.Node) { n.Labels["a"] = "b" }, want: "metadata: the operator changes"},
		{name: "another label's value", change: func(n *corev1.Node) { n.Labels["kubernetes.io/hostname"] = "n2" }, want: "metadata: the operator changes"},
		{name: "another label goes", change: func(n *corev1.Node) { n.Labels = nil }, want: "metadata: the operator changes"},
		{name: "another annotation", change: func(n *corev1.Node) { delete(n.Annotations, "a") }, want: "metadata: the operator changes"},
		{name: "a taint", change: func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}} }, want: "spec: "},
		{name: "cordon", change: func(n *corev1.Node) { n.Spec.Unschedulable = true }, want: "spec: "},
		{name: "a finalizer", change: func(n *corev1.Node) { n.Finalizers = []string{"a.example/b"} }, want: "spec: "},
		{name: "capacity", change: func(n *corev1.Node) { n.Status.Capacity[corev1.ResourceCPU] = resource.MustParse("400") }, want: "status: "},
		{name: "address", change: func(n *corev1.Node) { n.Status.Addresses[0].Address = "192.0.2.2" }, want: "status: "},
		{name: "another account is not ours to judge", user: "system:node:n1", change: func(n *corev1.Node) { n.Spec.Unschedulable = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asks := &user.DefaultInfo{Name: operator}
			if tc.user != "" {
				asks.Name = tc.user
			}
			got := policy.answer(attributesOf("Node", "nodes", "", admission.Update, node(tc.change), node(nil), asks), nil)
			if (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("answer %q, want %q", got, tc.want)
			}
		})
	}
}
