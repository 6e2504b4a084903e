// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"
)

// claimCases are requests and answers: testdata/claimpolicy.yaml, which the
// lab tries on a live API server as well.
type claimCases struct {
	// Namespaces by name, with their labels.
	Namespaces map[string]map[string]string `json:"namespaces"`
	Cases      []struct {
		Name string `json:"name"`
		// Namespace is "plain" if empty.
		Namespace string `json:"namespace"`
		// Driver is dra.net if empty.
		Driver string `json:"driver"`
		// Parameters are JSON, one text for each configuration.
		Parameters []string `json:"parameters"`
		// Refused is part of the refusal; empty where the claim may be made.
		Refused string `json:"refused"`
		// Invalid is set where the API server refuses before it asks.
		Invalid bool `json:"invalid"`
	} `json:"cases"`
}

func readClaimCases(t *testing.T) claimCases {
	t.Helper()
	text, err := os.ReadFile("testdata/claimpolicy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases claimCases
	if err := yaml.UnmarshalStrict(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func attributesOf(kind, resource, namespace string, operation admission.Operation, object, old runtime.Object, asks user.Info) admission.Attributes {
	version := resourcev1.SchemeGroupVersion
	for _, o := range []runtime.Object{object, old} {
		if o != nil {
			o.GetObjectKind().SetGroupVersionKind(version.WithKind(kind))
		}
	}
	return admission.NewAttributesRecord(object, old, version.WithKind(kind), namespace, "name",
		version.WithResource(resource), "", operation, nil, false, asks)
}

// specOf is a claim's with these configurations.
func specOf(driver string, parameters ...string) resourcev1.ResourceClaimSpec {
	var spec resourcev1.ResourceClaimSpec
	for _, text := range parameters {
		spec.Devices.Config = append(spec.Devices.Config, resourcev1.DeviceClaimConfiguration{DeviceConfiguration: resourcev1.DeviceConfiguration{
			Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(text)}},
		}})
	}
	return spec
}

func TestClaimPolicy(t *testing.T) {
	cases := readClaimCases(t)
	policy := compile(t, shipped[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy", "plumbline-claim-parameters").Spec)
	asks := &user.DefaultInfo{Name: "somebody"}
	label := regexp.MustCompile(`allow\.plumbline\.dev/(\w+)=true`)
	refusals := map[string]int{} // by the setting they are about
	for _, tc := range cases.Cases {
		t.Run(tc.Name, func(t *testing.T) {
			name, driver := tc.Namespace, tc.Driver
			if name == "" {
				name = "plain"
			}
			if driver == "" {
				driver = "dra.net"
			}
			labels, known := cases.Namespaces[name]
			if !known {
				t.Fatalf("namespace %q is not one of the list's", name)
			}
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
			spec := specOf(driver, tc.Parameters...)
			for _, attributes := range []admission.Attributes{
				attributesOf("ResourceClaim", "resourceclaims", name, admission.Create, &resourcev1.ResourceClaim{Spec: spec}, nil, asks),
				attributesOf("ResourceClaimTemplate", "resourceclaimtemplates", name, admission.Create,
					&resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{Spec: spec}}, nil, asks),
			} {
				got := policy.answer(attributes, namespace)
				if found := label.FindStringSubmatch(got); found != nil {
					refusals[found[1]]++
				}
				if (got == "") != (tc.Refused == "") || !strings.Contains(got, tc.Refused) {
					t.Errorf("%s: answer %q, want one with %q", attributes.GetKind().Kind, got, tc.Refused)
				}
			}
		})
	}
	for _, v := range policy.spec.Validations {
		if found := label.FindStringSubmatch(v.MessageExpression); found != nil && refusals[found[1]] == 0 {
			t.Errorf("%s: guarded, and no case tries it", found[1])
		}
	}
	if len(cases.Cases) < 40 {
		t.Errorf("%d cases, want the 40 kinds there are at least", len(cases.Cases))
	}
}

// TestClaimPolicyFailsClosed: an expression that cannot be evaluated, say
// because it grew too costly, must not pass in silence, which is a refusal where
// an administrator has the policy deny; manifests of others apply unchanged until
// then, so that it warns by default; and a change of a
// claim that is there must not be judged, or its finalizer would stay when a
// label has gone.
func TestClaimPolicyFailsClosed(t *testing.T) {
	policy := shipped[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy", "plumbline-claim-parameters")
	binding := shipped[admissionv1.ValidatingAdmissionPolicyBinding](t, "ValidatingAdmissionPolicyBinding", "plumbline-claim-parameters")
	if p := policy.Spec.FailurePolicy; p == nil || *p != admissionv1.Fail {
		t.Error("an expression that fails lets the claim pass")
	}
	if binding.Spec.PolicyName != policy.Name || len(binding.Spec.ValidationActions) != 1 || binding.Spec.ValidationActions[0] != admissionv1.Warn {
		t.Errorf("binding %+v does not warn by policy %s", binding.Spec, policy.Name)
	}
	for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
		if len(rule.Operations) != 1 || rule.Operations[0] != admissionv1.Create {
			t.Errorf("the policy judges %v, want CREATE alone", rule.Operations)
		}
	}
}

// TestExamplesAreNotRefused: what a fresh user applies is at most warned of, in a
// namespace that nobody labelled. The lab has a live API server say so as well.
func TestExamplesAreNotRefused(t *testing.T) {
	policy := compile(t, shipped[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy", "plumbline-claim-parameters").Spec)
	files, err := filepath.Glob("../examples/*/manifests/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "unlabelled"}}
	warned, judged := map[string][]string{}, 0 // by the first thing that is said
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			kind, object := claimIn(t, document)
			if object == nil {
				continue
			}
			judged++
			answer := policy.answer(attributesOf(kind, strings.ToLower(kind)+"s", namespace.Name, admission.Create, object, nil,
				&user.DefaultInfo{Name: "somebody"}), namespace)
			example := strings.Split(filepath.ToSlash(file), "/")[2]
			for _, m := range regexp.MustCompile(`allow\.plumbline\.dev/(\w+)=true`).FindAllStringSubmatch(answer, -1) {
				warned[example] = append(warned[example], m[1])
			}
		}
	}
	if want := map[string][]string{"tpu-v6e-multi-nic": {"disableEbpfPrograms"}}; !reflect.DeepEqual(warned, want) {
		t.Errorf("warned of %v, want %v", warned, want)
	}
	if judged < 8 {
		t.Errorf("%d claims and templates are judged, want those of all examples", judged)
	}
}

// claimIn is a manifest's claim or template, whose parameters are in the same place
// in every version of the API; nil for other kinds.
func claimIn(t *testing.T, document string) (kind string, object runtime.Object) {
	t.Helper()
	var is metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &is); err != nil {
		t.Fatal(err)
	}
	switch is.Kind {
	case "ResourceClaim":
		object = &resourcev1.ResourceClaim{}
	case "ResourceClaimTemplate":
		object = &resourcev1.ResourceClaimTemplate{}
	default:
		return is.Kind, nil
	}
	if err := yaml.Unmarshal([]byte(document), object); err != nil {
		t.Fatal(err)
	}
	return is.Kind, object
}
