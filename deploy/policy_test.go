// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/deploy"
)

// shippedPolicy finds the admission policy in install.yaml.
func shippedPolicy(t *testing.T) admissionv1.ValidatingAdmissionPolicySpec {
	t.Helper()
	for _, document := range bytes.Split(deploy.Install(), []byte("\n---\n")) {
		if !bytes.Contains(document, []byte("\nkind: ValidatingAdmissionPolicy\n")) {
			continue
		}
		var policy admissionv1.ValidatingAdmissionPolicy
		if err := yaml.UnmarshalStrict(document, &policy); err != nil {
			t.Fatal(err)
		}
		return policy.Spec
	}
	t.Fatal("install.yaml has no ValidatingAdmissionPolicy")
	return admissionv1.ValidatingAdmissionPolicySpec{}
}

// evaluator runs expressions in the API server's CEL environment. Types are
// left open here; the lab's API server checks them.
type evaluator struct {
	t     *testing.T
	env   *cel.Env
	input map[string]any
}

func (e evaluator) eval(expression string) any {
	e.t.Helper()
	ast, issues := e.env.Compile(expression)
	if issues.Err() != nil {
		e.t.Fatalf("compile %s: %v", expression, issues.Err())
	}
	program, err := e.env.Program(ast)
	if err != nil {
		e.t.Fatalf("plan %s: %v", expression, err)
	}
	value, _, err := program.Eval(e.input)
	if err != nil {
		e.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return value.Value()
}

// admit answers as the API server would: nothing for a request it lets pass,
// else the first refusal.
func admit(t *testing.T, spec admissionv1.ValidatingAdmissionPolicySpec, request, object, oldObject any) string {
	t.Helper()
	base, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("request", cel.DynType), cel.Variable("object", cel.DynType),
			cel.Variable("oldObject", cel.DynType), cel.Variable("variables", cel.DynType),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]any{}
	e := evaluator{t, base.StoredExpressionsEnv(), map[string]any{
		"request": request, "object": object, "oldObject": oldObject, "variables": variables,
	}}
	for _, condition := range spec.MatchConditions {
		if e.eval(condition.Expression) != true {
			return ""
		}
	}
	for _, variable := range spec.Variables {
		variables[variable.Name] = e.eval(variable.Expression)
	}
	for _, validation := range spec.Validations {
		if e.eval(validation.Expression) == true {
			continue
		}
		if validation.MessageExpression != "" {
			return e.eval(validation.MessageExpression).(string)
		}
		return validation.Message
	}
	return ""
}

// TestPolicy goes through who asks and what changes. What the whole of RBAC
// and admission answers is tried on a live API server; see forbidden.yaml.
func TestPolicy(t *testing.T) {
	const agent = "system:serviceaccount:plumbline-system:plumbline-agent"
	slice := func(node, pool, driver string) any {
		spec := map[string]any{"driver": driver, "pool": map[string]any{"name": pool}}
		if node != "" {
			spec["nodeName"] = node
		}
		return map[string]any{"spec": spec}
	}
	own := slice("a", "a", "dra.net")
	tests := []struct {
		name        string
		user        string
		nodes       []string
		object, old any
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
	spec := shippedPolicy(t)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			user := map[string]any{"username": agent}
			if tc.user != "" {
				user["username"] = tc.user
			}
			if tc.nodes != nil {
				user["extra"] = map[string]any{"authentication.kubernetes.io/node-name": tc.nodes}
			}
			got := admit(t, spec, map[string]any{"userInfo": user}, tc.object, tc.old)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("answer %q, want one with %q", got, tc.want)
			}
		})
	}
}
