// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"bytes"
	"testing"

	celgo "github.com/google/cel-go/cel"
	celtypes "github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/deploy"
)

// shipped decodes an object of install.yaml, found by kind and name.
func shipped[T any](t *testing.T, kind, name string) T {
	t.Helper()
	var object T
	for _, document := range bytes.Split(deploy.Install(), []byte("\n---\n")) {
		if !bytes.Contains(document, []byte("\nkind: "+kind+"\n")) || !bytes.Contains(document, []byte("\n  name: "+name+"\n")) {
			continue
		}
		if err := yaml.UnmarshalStrict(document, &object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	t.Fatalf("install.yaml has no %s named %s", kind, name)
	return object
}

// expression is text for the API server's compiler.
type expression struct {
	name, text string
	returns    *celgo.Type
}

func (e expression) GetExpression() string      { return e.text }
func (e expression) GetName() string            { return e.name }
func (e expression) ReturnTypes() []*celgo.Type { return []*celgo.Type{e.returns} }
func policyExpression(text string) cel.ExpressionAccessor {
	return expression{text: text, returns: celgo.BoolType}
}

// judge is a policy, compiled by the API server's own compiler. Which requests
// it is asked about is tried on a live API server.
type judge struct {
	t                                 *testing.T
	conditions, validations, messages cel.ConditionEvaluator
	spec                              admissionv1.ValidatingAdmissionPolicySpec
	// params is the parameter of a policy that has some.
	params runtime.Object
}

func compile(t *testing.T, spec admissionv1.ValidatingAdmissionPolicySpec) judge {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	declared := cel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil}
	for _, v := range spec.Variables {
		accessor := expression{name: v.Name, text: v.Expression, returns: celgo.AnyType}
		if result := compiler.CompileAndStoreVariable(accessor, declared, environment.StoredExpressions); result.Error != nil {
			t.Fatalf("variable %s: %v", v.Name, result.Error)
		}
	}
	var conditions, validations, messages []cel.ExpressionAccessor
	for _, c := range spec.MatchConditions {
		conditions = append(conditions, policyExpression(c.Expression))
	}
	for _, v := range spec.Validations {
		validations = append(validations, policyExpression(v.Expression))
		text := v.MessageExpression
		if text == "" {
			text = `""`
		}
		messages = append(messages, expression{text: text, returns: celgo.StringType})
	}
	compiled := func(list []cel.ExpressionAccessor) cel.ConditionEvaluator {
		evaluator := compiler.CompileCondition(list, declared, environment.StoredExpressions)
		for _, err := range evaluator.CompilationErrors() {
			t.Fatal(err)
		}
		return evaluator
	}
	return judge{t: t, conditions: compiled(conditions), validations: compiled(validations), messages: compiled(messages), spec: spec}
}

// answer is nothing for a request that the policy lets pass or is not about,
// else the first refusal. An expression that fails fails the test: the API
// server would refuse too, with a text that helps nobody.
func (j judge) answer(attributes admission.Attributes, namespace *corev1.Namespace) string {
	j.t.Helper()
	versioned := &admission.VersionedAttributes{
		Attributes: attributes, VersionedKind: attributes.GetKind(),
		VersionedObject:    admission.NewLazyObject(attributes.GetObject()),
		VersionedOldObject: admission.NewLazyObject(attributes.GetOldObject()),
	}
	for _, result := range j.evaluate(j.conditions, versioned, namespace) {
		if result.EvalResult != celtypes.True {
			return ""
		}
	}
	messages := j.evaluate(j.messages, versioned, namespace)
	for i, result := range j.evaluate(j.validations, versioned, namespace) {
		if result.EvalResult == celtypes.True {
			continue
		}
		if j.spec.Validations[i].MessageExpression != "" {
			return messages[i].EvalResult.Value().(string)
		}
		return j.spec.Validations[i].Message
	}
	return ""
}

func (j judge) evaluate(what cel.ConditionEvaluator, versioned *admission.VersionedAttributes, namespace *corev1.Namespace) []cel.EvaluationResult {
	j.t.Helper()
	request := cel.CreateAdmissionRequest(versioned.Attributes,
		metav1.GroupVersionResource(versioned.GetResource()), metav1.GroupVersionKind(versioned.VersionedKind))
	results, _, err := what.ForInput(j.t.Context(), versioned, request, cel.OptionalVariableBindings{VersionedParams: j.params}, namespace, celconfig.RuntimeCELCostBudget)
	if err != nil {
		j.t.Fatal(err)
	}
	for _, result := range results {
		if result.Error != nil {
			j.t.Fatalf("evaluate %s: %v", result.ExpressionAccessor.GetExpression(), result.Error)
		}
	}
	return results
}
