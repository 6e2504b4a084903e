// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"plumbline.dev/plumbline/deploy"
)

func TestRefusedValues(t *testing.T) {
	tests := []struct{ name, values, want string }{
		{"unknown value", "images: {}", "images"},
		{"unknown GPU mode", "drivers: {gpu: {mode: native}}", "mode"},
		{"unknown class", "deviceClasses: {create: [rdma]}", "deviceClasses/create/0"},
		{"no driver at all", "drivers: {net: {enabled: false}, cpu: {enabled: false}}", "drivers: none is served"},
		{"simulated without a machine", "drivers: {gpu: {mode: simulated}}", "drivers.gpu.machine: simulated GPUs need"},
		{"unknown guard", "claimPolicy: {guarded: [mtu]}", "claimPolicy/guarded/0"},
		{"unknown action", "claimPolicy: {action: Audit}", "claimPolicy/action"},
		{"reserved CPUs that are no list", "drivers: {cpu: {reservedCPUs: two}}", "reservedCPUs"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := chartOf(t, tc.values); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// TestRightsFollowTheDrivers: what is not served cannot be written either.
func TestRightsFollowTheDrivers(t *testing.T) {
	tests := []struct {
		values string
		want   []string
	}{
		{"", []string{"dra.cpu", "dra.net"}},
		{"drivers: {gpu: {mode: simulated, machine: egx-t4-cx5}}", []string{"dra.cpu", "dra.net", "gpu.nvidia.com"}},
		{"drivers: {net: {enabled: false}}", []string{"dra.cpu"}},
	}
	for _, tc := range tests {
		t.Run(tc.values, func(t *testing.T) {
			objects := rendered(t, tc.values)
			var names []string
			for _, rule := range roleNamed(t, objects, deploy.AgentServiceAccount).Rules {
				names = append(names, rule.ResourceNames...)
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("drivers whose status the agent may write (-want +got):\n%s", diff)
			}
			list := `["` + strings.Join(tc.want, `","`) + `"]`
			policy := policyNamed(objects, "plumbline-agent-own-slices")
			if policy == nil {
				t.Fatal("no policy of the agent's slices")
			}
			var expressions []string
			for _, validation := range policy.Spec.Validations {
				expressions = append(expressions, validation.Expression)
			}
			if !strings.Contains(strings.Join(expressions, "\n"), "s.spec.driver in "+list) {
				t.Errorf("the policy does not hold slices to %s:\n%s", list, strings.Join(expressions, "\n"))
			}
		})
	}
}

// roleNamed is what an account of that name may do in the cluster.
func roleNamed(t *testing.T, objects []any, name string) *rbacv1.ClusterRole {
	t.Helper()
	for _, object := range objects {
		if role, ok := object.(*rbacv1.ClusterRole); ok && role.Name == name {
			return role
		}
	}
	t.Fatalf("no ClusterRole %s", name)
	return nil
}

// policyNamed is nil where the chart rendered no such policy.
func policyNamed(objects []any, name string) *admissionv1.ValidatingAdmissionPolicy {
	for _, object := range objects {
		if policy, ok := object.(*admissionv1.ValidatingAdmissionPolicy); ok && policy.Name == name {
			return policy
		}
	}
	return nil
}

// TestClaimPolicyFollowsItsValues: who wants another guard, or none, says so.
func TestClaimPolicyFollowsItsValues(t *testing.T) {
	tests := []struct {
		name, values string
		validations  int // 0: no policy
		action       admissionv1.ValidationAction
	}{
		{"defaults", "", 8, admissionv1.Warn},
		{"off", "claimPolicy: {enabled: false}", 0, ""},
		{"refusals", "claimPolicy: {action: Deny}", 8, admissionv1.Deny},
		{"one guard", "claimPolicy: {guarded: [umad]}", 2, admissionv1.Warn},
		{"one guard twice", "claimPolicy: {guarded: [umad, umad]}", 2, admissionv1.Warn},
		{"no guard", "claimPolicy: {guarded: []}", 0, ""},
		{"dra.net is another's", "drivers: {net: {enabled: false}}", 0, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			const name = "plumbline-claim-parameters"
			objects := rendered(t, tc.values)
			policy := policyNamed(objects, name)
			if policy == nil && tc.validations == 0 {
				return
			}
			if policy == nil || len(policy.Spec.Validations) != tc.validations {
				t.Fatalf("policy %+v, want one with %d validations", policy, tc.validations)
			}
			for _, object := range objects {
				binding, ok := object.(*admissionv1.ValidatingAdmissionPolicyBinding)
				if ok && binding.Spec.PolicyName == name && !slices.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{tc.action}) {
					t.Errorf("actions %v, want %s alone", binding.Spec.ValidationActions, tc.action)
				}
			}
		})
	}
}
