// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

const hostPoliciesAgree = "plumbline-host-policies-agree"

// hostPolicyCases are testdata/hostpolicies.yaml, which the lab tries on a live API server
// as well.
type hostPolicyCases struct {
	// Existing are there, by name.
	Existing map[string]hosts.HostPolicySpec `json:"existing"`
	Cases    []struct {
		Name string               `json:"name"`
		Spec hosts.HostPolicySpec `json:"spec"`
		// Update is the name of one that exists; empty for a new one.
		Update string `json:"update"`
		// Refused is how the refusal begins; empty where the policy is admitted.
		Refused string `json:"refused"`
	} `json:"cases"`
}

// A HostPolicy that contradicts another one of the same nodes is refused.
func TestHostPoliciesAgree(t *testing.T) {
	text, err := os.ReadFile("testdata/hostpolicies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases hostPolicyCases
	if err := yaml.UnmarshalStrict(text, &cases); err != nil {
		t.Fatal(err)
	}
	policy := compile(t, shipped[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy", hostPoliciesAgree).Spec)
	for _, tc := range cases.Cases {
		t.Run(tc.Name, func(t *testing.T) {
			written, operation, old := hostPolicy("new", tc.Spec), admission.Create, runtime.Object(nil)
			if tc.Update != "" {
				written, operation, old = hostPolicy(tc.Update, tc.Spec), admission.Update, hostPolicy(tc.Update, cases.Existing[tc.Update])
			}
			got := ""
			for _, name := range slices.Sorted(maps.Keys(cases.Existing)) {
				policy.params = hostPolicy(name, cases.Existing[name])
				if got = ofHostPolicy(policy, operation, written, old); got != "" {
					break
				}
			}
			if (got == "") != (tc.Refused == "") || !strings.HasPrefix(got, tc.Refused) {
				t.Errorf("answer %q\nwant one that begins with %q", got, tc.Refused)
			}
		})
	}
}

// Of two that disagree already, since they were written at one moment, each can still be
// given labels and lose finalizers.
func TestDisagreeingHostPoliciesChangeTheirMetadata(t *testing.T) {
	policy := compile(t, shipped[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy", hostPoliciesAgree).Spec)
	policy.params = hostPolicy("other", hosts.HostPolicySpec{RDMANamespaces: "shared"})
	old := hostPolicy("one", hosts.HostPolicySpec{RDMANamespaces: "exclusive"})
	labelled := old.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	if got := ofHostPolicy(policy, admission.Update, labelled, old); got != "" {
		t.Errorf("a new label is refused: %s", got)
	}
	changed := labelled.DeepCopy()
	changed.Spec.Modules = []hosts.Module{"rdma_cm"}
	if got := ofHostPolicy(policy, admission.Update, changed, old); !strings.HasPrefix(got, "spec.rdmaNamespaces: ") {
		t.Errorf("answer %q to one that still disagrees", got)
	}
}

// The largest policies that the API's form allows cost less than the API server grants.
// Where they cost more, failurePolicy has them admitted, unseen.
func TestLargestHostPoliciesAreEvaluated(t *testing.T) {
	largest := func(by func(i int) hosts.LinkPolicy, mtu int32) hosts.HostPolicySpec {
		spec := hosts.HostPolicySpec{RDMANamespaces: "shared", Sysctls: map[string]hosts.HostSysctlValue{}}
		for i := range 12 {
			spec.Sysctls[fmt.Sprintf("net.core.setting_%d", i)] = "4294967295 4294967295 4294967295"
		}
		for i := range 64 {
			link := by(i)
			link.Up, link.MTU, link.MaxReadRequest, link.RelaxedOrdering = ptr.To(true), ptr.To[int32](9000), ptr.To[int32](4096), ptr.To(true)
			link.Sysctls = map[string]hosts.SysctlValue{}
			for _, key := range []string{"arp_announce", "arp_filter", "arp_ignore", "arp_notify", "rp_filter"} {
				link.Sysctls["ipv4/conf/"+key] = "1"
			}
			link.Share = &hosts.LinkShare{
				Type: "vlan", VLANIDs: &hosts.VLANRange{First: 100, Last: 199}, Slots: 16, Bandwidth: "100G",
				IPAM: &hosts.LinkIPAM{Pool: strings.Repeat("p", 63)}, AlsoExclusive: true,
			}
			spec.Links = append(spec.Links, link)
		}
		*spec.Links[63].MTU = mtu
		for i := range 32 {
			spec.NodeSelector.MatchExpressions = append(spec.NodeSelector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: fmt.Sprintf("example.com/label-%d", i), Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b", "c", "d"}})
		}
		return spec
	}
	policy := compile(t, shipped[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy", hostPoliciesAgree).Spec)
	for name, by := range map[string]func(i int) hosts.LinkPolicy{
		"each link by itself": func(i int) hosts.LinkPolicy {
			return hosts.LinkPolicy{Driver: fmt.Sprintf("%s-%02d", strings.Repeat("d", 60), i)}
		},
		"each link by a long expression": func(i int) hosts.LinkPolicy {
			return hosts.LinkPolicy{Selector: &hosts.LinkSelector{CEL: fmt.Sprintf("true || %d == %s", i, strings.Repeat("1", 490))}}
		},
		"one link again and again": func(int) hosts.LinkPolicy { return hosts.LinkPolicy{Driver: strings.Repeat("d", 63)} },
	} {
		t.Run(name, func(t *testing.T) {
			policy.t, policy.params = t, hostPolicy("other", largest(by, 9000))
			if got := ofHostPolicy(policy, admission.Create, hostPolicy("new", largest(by, 9000)), nil); got != "" {
				t.Errorf("equal ones are refused: %s", got)
			}
			if got := ofHostPolicy(policy, admission.Create, hostPolicy("new", largest(by, 1500)), nil); !strings.Contains(got, `want "1500" and "9000"`) {
				t.Errorf("answer %q to another MTU", got)
			}
		})
	}
}

func hostPolicy(name string, spec hosts.HostPolicySpec) *hosts.HostPolicy {
	return &hosts.HostPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func ofHostPolicy(policy judge, operation admission.Operation, written, old runtime.Object) string {
	return policy.answer(attributesOf("HostPolicy", "hostpolicies", "", operation, written, old, &user.DefaultInfo{Name: "somebody"}), nil)
}
