// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package leastprivilege

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// List is the content of forbidden.yaml.
type List struct {
	// Fixtures are objects that the requests refer to.
	Fixtures []map[string]any `json:"fixtures"`
	// Requests are tried in order.
	Requests []Request `json:"requests"`
}

// Request is one request of the agent and the answer it must get.
type Request struct {
	// Name says in a few words what is tried.
	Name string `json:"name"`
	// Token is "" for a token that names the agent's node, TokenNoNode for
	// one that does not.
	Token string `json:"token,omitempty"`
	// Verb is one of the verbs of RBAC.
	Verb string `json:"verb"`
	// Resource is "plural.version.group"; the group of core is empty.
	Resource string `json:"resource"`
	// Subresource is for example "status".
	Subresource string `json:"subresource,omitempty"`
	// Namespace is empty for cluster-scoped objects and for all namespaces.
	Namespace string `json:"namespace,omitempty"`
	// ObjectName is the object asked for; create and update take it from
	// Object.
	ObjectName string `json:"objectName,omitempty"`
	// Object is the body: the object to create or to put, or a merge patch.
	Object map[string]any `json:"object,omitempty"`
	// Refused is part of the answer that must come; empty means that the
	// request must pass.
	Refused string `json:"refused,omitempty"`
	// OrAbsent accepts that the API server does not know the resource.
	OrAbsent bool `json:"orAbsent,omitempty"`
}

// TokenNoNode asks with a token that is bound to no pod and names no node.
const TokenNoNode = "no-node"

// verbs are those that a Request may use.
var verbs = []string{"get", "list", "create", "update", "patch", "delete", "deletecollection"}

// Subject is the agent that asks.
type Subject struct {
	// Node is the name of the agent's node.
	Node string
	// Namespace and Account name its ServiceAccount.
	Namespace, Account string
}

// Parse reads a list and fills in its placeholders. An unknown field, verb,
// token or placeholder is an error.
func Parse(text []byte, subject Subject) (List, error) {
	var unknown []string
	filled := os.Expand(string(text), func(name string) string {
		switch name {
		case "NODE":
			return subject.Node
		case "NAMESPACE":
			return subject.Namespace
		case "ACCOUNT":
			return subject.Account
		}
		unknown = append(unknown, name)
		return ""
	})
	if len(unknown) > 0 {
		return List{}, fmt.Errorf("parse list of forbidden requests: placeholder %q: want NODE, NAMESPACE or ACCOUNT", unknown)
	}
	var list List
	if err := yaml.UnmarshalStrict([]byte(filled), &list); err != nil {
		return List{}, fmt.Errorf("parse list of forbidden requests: %w", err)
	}
	for i, request := range list.Requests {
		if err := request.check(); err != nil {
			return List{}, fmt.Errorf("parse list of forbidden requests: requests[%d] %q: %w", i, request.Name, err)
		}
	}
	return list, nil
}

func (r Request) check() error {
	if r.Name == "" {
		return fmt.Errorf("name: empty")
	}
	if r.Token != "" && r.Token != TokenNoNode {
		return fmt.Errorf("token: %q: want none or %q", r.Token, TokenNoNode)
	}
	if !slices.Contains(verbs, r.Verb) {
		return fmt.Errorf("verb: %q: want one of %s", r.Verb, strings.Join(verbs, ", "))
	}
	if _, err := r.gvr(); err != nil {
		return err
	}
	if needsObject := slices.Contains([]string{"create", "update", "patch"}, r.Verb); needsObject != (r.Object != nil) {
		return fmt.Errorf("object: given for %s: %t, want %t", r.Verb, r.Object != nil, needsObject)
	}
	return nil
}

// gvr splits Resource; the group of core is empty, as in "pods.v1.".
func (r Request) gvr() (schema.GroupVersionResource, error) {
	resource, rest, found := strings.Cut(r.Resource, ".")
	version, group, both := strings.Cut(rest, ".")
	if !found || !both || resource == "" || version == "" {
		return schema.GroupVersionResource{}, fmt.Errorf("resource: %q: want plural.version.group", r.Resource)
	}
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, nil
}

// object is the body as the dynamic client wants it.
func (r Request) object() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: r.Object}
}
