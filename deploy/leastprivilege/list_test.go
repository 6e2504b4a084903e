// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package leastprivilege

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/deploy"
)

var subject = Subject{Node: "node-1", Namespace: "plumbline-system", Account: "plumbline-agent"}

// TestShippedList keeps the shipped list readable and balanced: what it tries
// in vain of slices and claims, it also tries with success.
func TestShippedList(t *testing.T) {
	list, err := Parse(deploy.Forbidden(), subject)
	if err != nil {
		t.Fatal(err)
	}
	allowed, refused := map[string]bool{}, 0
	names := map[string]bool{}
	for _, request := range list.Requests {
		if names[request.Name] {
			t.Errorf("two requests are named %q", request.Name)
		}
		names[request.Name] = true
		if request.Refused == "" {
			allowed[request.Verb+" "+request.Resource] = true
		} else {
			refused++
		}
	}
	// What the operator writes.
	operator, err := Parse(deploy.ForbiddenOperator(), Subject{Node: "node-1", Namespace: "plumbline-system", Account: "plumbline-operator"})
	if err != nil {
		t.Fatal(err)
	}
	writes := map[string]bool{}
	for _, request := range operator.Requests {
		if !slices.Contains([]string{"get", "list"}, request.Verb) && request.Refused == "" {
			writes[strings.TrimSuffix(request.Verb+" "+request.Resource+"/"+request.Subresource, "/")] = true
		}
	}
	if diff := cmp.Diff([]string{
		"create events.v1.", "create leases.v1.coordination.k8s.io", "create networkaddressblocks.v1alpha1.plumbline.dev", "patch nodes.v1.", "patch nodes.v1./status",
	}, slices.Sorted(maps.Keys(writes))); diff != "" {
		t.Errorf("what the operator may write (-want +got):\n%s", diff)
	}
	for _, want := range []string{"create resourceslices.v1.resource.k8s.io", "patch resourceclaims.v1.resource.k8s.io", "list pods.v1."} {
		if !allowed[want] {
			t.Errorf("no request that must pass tries to %s", want)
		}
	}
	if refused < 30 {
		t.Errorf("%d requests must be refused, want the 30 kinds there are at least", refused)
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"unknown field", "requests: [{name: a, verbs: get}]", `unknown field "verbs"`},
		{"unknown placeholder", "requests: [{name: \"${POD}\"}]", `placeholder ["POD"]`},
		{"no name", "requests: [{verb: get, resource: pods.v1.}]", "name: empty"},
		{"unknown verb", "requests: [{name: a, verb: watch, resource: pods.v1.}]", `verb: "watch"`},
		{"unknown token", "requests: [{name: a, token: root, verb: get, resource: pods.v1.}]", `token: "root"`},
		{"resource without version", "requests: [{name: a, verb: get, resource: pods}]", `resource: "pods": want plural.version.group`},
		{"create without object", "requests: [{name: a, verb: create, resource: pods.v1.}]", "object: given for create: false"},
		{"get with object", "requests: [{name: a, verb: get, resource: pods.v1., object: {}}]", "object: given for get: true"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse([]byte(tc.text), subject)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}
