// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	celgo "github.com/google/cel-go/cel"
)

// namesOf are the claims that a pod's containers name, by container.
func namesOf(pod *corev1.Pod) map[string]string {
	named := map[string]string{}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		var names []string
		for _, claim := range c.Resources.Claims {
			names = append(names, strings.TrimSuffix(claim.Name+"/"+claim.Request, "/"))
		}
		named[c.Name] = strings.Join(names, " ")
	}
	return named
}

// A claim that no container of a pod names is named by all of them.
func TestNameClaims(t *testing.T) {
	var cases struct {
		Cases []struct {
			Name  string            `json:"name"`
			Pod   corev1.Pod        `json:"pod"`
			Named map[string]string `json:"named"`
		} `json:"cases"`
	}
	text, err := os.ReadFile("testdata/nameclaims.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &cases); err != nil {
		t.Fatal(err)
	}
	spec := shipped[admissionv1.MutatingAdmissionPolicy](t, "MutatingAdmissionPolicy", "plumbline-name-claims").Spec
	conditions := compile(t, admissionv1.ValidatingAdmissionPolicySpec{MatchConditions: spec.MatchConditions})
	ctx, patcher := patcherOf(t, spec)
	for _, tc := range cases.Cases {
		t.Run(tc.Name, func(t *testing.T) {
			pod := tc.Pod
			pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			attributes := admission.NewAttributesRecord(&pod, nil, pod.GroupVersionKind(), "default", "name",
				corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, &user.DefaultInfo{Name: "somebody"})
			versioned := &admission.VersionedAttributes{
				Attributes: attributes, VersionedKind: pod.GroupVersionKind(),
				VersionedObject: admission.NewLazyObject(&pod), VersionedOldObject: admission.NewLazyObject(nil),
			}
			got := namesOf(&pod)
			matches := selects(t, spec.MatchConstraints.ObjectSelector, pod.Labels)
			for _, result := range conditions.evaluate(conditions.conditions, versioned, nil) {
				matches = matches && result.EvalResult.Value() == true
			}
			if matches {
				got = namesOf(patched(ctx, t, patcher, versioned))
			}
			if diff := cmp.Diff(tc.Named, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

func selects(t *testing.T, s *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(labels.Set(of))
}

// patcherOf compiles a policy's one mutation as the API server does
// (k8s.io/apiserver/pkg/admission/plugin/policy/mutating, compilePolicy).
func patcherOf(t *testing.T, spec admissionv1.MutatingAdmissionPolicySpec) (context.Context, patch.Patcher) {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	declared := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, v := range spec.Variables {
		accessor := expression{name: v.Name, text: v.Expression, returns: celgo.AnyType}
		if result := compiler.CompileAndStoreVariable(accessor, declared, environment.StoredExpressions); result.Error != nil {
			t.Fatalf("variable %s: %v", v.Name, result.Error)
		}
	}
	if len(spec.Mutations) != 1 || spec.Mutations[0].ApplyConfiguration == nil {
		t.Fatalf("%d mutations, want one apply configuration", len(spec.Mutations))
	}
	declared.HasPatchTypes = true
	accessor := &patch.ApplyConfigurationCondition{Expression: spec.Mutations[0].ApplyConfiguration.Expression}
	// The variables are found by the context.
	return compiler.CreateContext(t.Context()), patch.NewApplyConfigurationPatcher(compiler.CompileMutatingEvaluator(accessor, declared, environment.StoredExpressions))
}

func patched(ctx context.Context, t *testing.T, patcher patch.Patcher, versioned *admission.VersionedAttributes) *corev1.Pod {
	t.Helper()
	object, err := patcher.Patch(ctx, patch.Request{
		MatchedResource: versioned.GetResource(), VersionedAttributes: versioned,
		ObjectInterfaces: admission.NewObjectInterfacesFromScheme(scheme.Scheme),
		TypeConverter:    applyconfigurations.NewTypeConverter(scheme.Scheme),
	}, celconfig.RuntimeCELCostBudget)
	if err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &pod); err != nil {
		t.Fatal(err)
	}
	return &pod
}
