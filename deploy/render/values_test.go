// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestRefusedValues(t *testing.T) {
	tests := []struct{ name, values, want string }{
		{"unknown value", "images: {}", "images"},
		{"unknown GPU mode", "drivers: {gpu: {mode: native}}", "mode"},
		{"unknown class", "deviceClasses: {create: [rdma]}", "deviceClasses/create/0"},
		{"no driver at all", "drivers: {net: {enabled: false}, cpu: {enabled: false}}", "drivers: none is served"},
		{"simulated without a machine", "drivers: {gpu: {mode: simulated}}", "drivers.gpu.machine: simulated GPUs need"},
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
			for _, rule := range only[*rbacv1.ClusterRole](t, objects).Rules {
				names = append(names, rule.ResourceNames...)
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("drivers whose status the agent may write (-want +got):\n%s", diff)
			}
			list := `["` + strings.Join(tc.want, `","`) + `"]`
			policy := only[*admissionv1.ValidatingAdmissionPolicy](t, objects)
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
