// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

// TestPolicy goes through who asks and what changes. What the whole of RBAC
// and admission answers is tried on a live API server; see forbidden.yaml.
func TestPolicy(t *testing.T) {
	const agent = "system:serviceaccount:plumbline-system:plumbline-agent"
	slice := func(node, pool, driver string) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: driver, Pool: resourcev1.ResourcePool{Name: pool}}}
		if node != "" {
			s.Spec.NodeName = ptr.To(node)
		}
		return s
	}
	own := slice("a", "a", "dra.net")
	tests := []struct {
		name        string
		user        string
		nodes       []string
		object, old *resourcev1.ResourceSlice
		want        string
	}{
		{name: "create own", nodes: []string{"a"}, object: own},
		{name: "update own", nodes: []string{"a"}, object: own, old: own},
		{name: "delete own", nodes: []string{"a"}, old: own},
		{name: "the other own driver", nodes: []string{"a"}, object: slice("a", "a", "dra.cpu")},
		{name: "another account is not ours to judge", user: "system:node:b", object: slice("b", "b", "x")},
		{name: "no node in the token", object: own, want: "token names no node"},
		{name: "two nodes in the token", nodes: []string{"a", "b"}, object: own, want: "token names no node"},
		{name: "an empty node in the token", nodes: []string{""}, object: slice("", "", "dra.net"), want: "token names no node"},
		{name: "create for another node", nodes: []string{"a"}, object: slice("b", "b", "dra.net"), want: "spec.nodeName"},
		{name: "create for no node", nodes: []string{"a"}, object: slice("", "a", "dra.net"), want: "spec.nodeName"},
		{name: "delete of another node", nodes: []string{"a"}, old: slice("b", "b", "dra.net"), want: "spec.nodeName"},
		{name: "take over another node's", nodes: []string{"a"}, object: own, old: slice("b", "b", "dra.net"), want: "spec.nodeName"},
		{name: "give an own one away", nodes: []string{"a"}, object: slice("b", "b", "dra.net"), old: own, want: "spec.nodeName"},
		{name: "another pool", nodes: []string{"a"}, object: slice("a", "b", "dra.net"), want: "spec.pool.name"},
		{name: "another driver", nodes: []string{"a"}, object: slice("a", "a", "example.com"), want: "spec.driver"},
		{name: "GPUs while another driver serves them", nodes: []string{"a"}, object: slice("a", "a", "gpu.nvidia.com"), want: "spec.driver"},
	}
	policy := compile(t, shipped[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy", "plumbline-agent-own-slices").Spec)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			asks := &user.DefaultInfo{Name: agent}
			if tc.user != "" {
				asks.Name = tc.user
			}
			if tc.nodes != nil {
				asks.Extra = map[string][]string{"authentication.kubernetes.io/node-name": tc.nodes}
			}
			// An interface that holds a nil pointer is not nil.
			var object, old runtime.Object
			operation := admission.Update
			if object = tc.object; tc.object == nil {
				object, operation = nil, admission.Delete
			}
			if old = tc.old; tc.old == nil {
				old, operation = nil, admission.Create
			}
			got := policy.answer(attributesOf("ResourceSlice", "resourceslices", "", operation, object, old, asks), nil)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("answer %q, want one with %q", got, tc.want)
			}
		})
	}
}

func TestReportPolicy(t *testing.T) {
	const agent = "system:serviceaccount:plumbline-system:plumbline-agent"
	report := func(name string, owners ...metav1.OwnerReference) *hosts.HostReport {
		return &hosts.HostReport{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
	}
	node := func(name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: name, UID: "u"}
	}
	tests := []struct {
		name, user string
		nodes      []string
		object     *hosts.HostReport
		want       string
	}{
		{name: "own", nodes: []string{"a"}, object: report("a", node("a"))},
		{name: "another account is not ours to judge", user: "system:admin", object: report("b")},
		{name: "no node in the token", object: report("a", node("a")), want: "token names no node"},
		{name: "two nodes in the token", nodes: []string{"a", "b"}, object: report("a", node("a")), want: "token names no node"},
		{name: "an empty node in the token", nodes: []string{""}, object: report("", node("")), want: "token names no node"},
		{name: "another node's", nodes: []string{"a"}, object: report("b", node("b")), want: "metadata.name"},
		{name: "owned by another node", nodes: []string{"a"}, object: report("a", node("b")), want: "metadata.ownerReferences"},
		{name: "owned by nobody", nodes: []string{"a"}, object: report("a"), want: "metadata.ownerReferences"},
		{name: "owned by two", nodes: []string{"a"}, object: report("a", node("a"), node("b")), want: "metadata.ownerReferences"},
		{
			name: "owned by what is no Node", nodes: []string{"a"}, want: "metadata.ownerReferences",
			object: report("a", metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "u"}),
		},
	}
	policy := compile(t, shipped[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy", "plumbline-agent-own-report").Spec)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			asks := &user.DefaultInfo{Name: agent}
			if tc.user != "" {
				asks.Name = tc.user
			}
			if tc.nodes != nil {
				asks.Extra = map[string][]string{"authentication.kubernetes.io/node-name": tc.nodes}
			}
			for _, operation := range []admission.Operation{admission.Create, admission.Update} {
				var old runtime.Object
				if operation == admission.Update {
					old = tc.object.DeepCopy()
				}
				got := policy.answer(attributesOf("HostReport", "hostreports", "", operation, tc.object, old, asks), nil)
				if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
					t.Errorf("%s: answer %q, want one with %q", operation, got, tc.want)
				}
			}
		})
	}
}
