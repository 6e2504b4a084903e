// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"regexp"
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
		{"unknown setting to deny", "claimPolicy: {deny: [umad, mtu]}", "claimPolicy/deny/1"},
		{"unknown action", "claimPolicy: {action: Refuse}", "claimPolicy/action"},
		{"unknown taint", "deviceTaints: PreferNoSchedule", "deviceTaints"},
		{"a driver's container without a kernel", "nicDriver: {images: [{image: x}]}", "nicDriver/images/0"},
		{"a driver that is a path", "nicDriver: {module: ../x}", "nicDriver/module"},
		{"device metadata that is no choice", "deviceMetadata: {enabled: sometimes}", "deviceMetadata/enabled"},
		{"a taint of host checks that is an effect", "hostReport: {deviceTaints: NoSchedule}", "hostReport/deviceTaints"},
		{"no listener's address", "http: {bindAddress: '9177'}", "http/bindAddress"},
		{"a listener's name", "http: {bindAddress: 'node-1:9177'}", "http/bindAddress"},
		{"no port of metrics", "metrics: {address: '127.0.0.1'}", "metrics/address"},
		{"an IPv6 address without brackets", "metrics: {address: '::1:9178'}", "metrics/address"},
		{"two interfaces in one", "drivers: {net: {allowInterfaces: ['nic0,nic1']}}", "allowInterfaces/0"},
		{"a kind of nothing", "drivers: {net: {allowInterfaces: ['kind:']}}", "allowInterfaces/0"},
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

// TestValuesOfAnOlderChart: helm upgrade --reuse-values brings the values of the chart
// before, which lack what is new. They render what the defaults do.
func TestValuesOfAnOlderChart(t *testing.T) {
	for _, tc := range []struct{ name, values, older string }{
		{
			"agents", "claimPolicy: {action: Deny}",
			"{http: null, deviceTaints: null, deviceMetadata: null, hostReport: null, hostSetup: null, nicDriver: null, drivers: {net: {moveIBInterfaces: null}}, claimPolicy: {action: Deny, deny: null}}",
		},
		{"observers", "observe: true", "{observe: true, http: null}"},
		{
			"the explainer's", "operator: {tolerations: [{operator: Exists}], resources: {limits: {memory: 1Gi}}}",
			"{operator: null, nodeLabels: null, explainer: {nodeSelector: {kubernetes.io/os: linux}, tolerations: [{operator: Exists}], resources: {requests: {cpu: 10m, memory: 64Mi}, limits: {cpu: '1', memory: 1Gi}}}}",
		},
		{"no explainer", "operator: {enabled: false}", "{operator: null, explainer: {enabled: false}}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want, err := chartOf(t, tc.values)
			if err != nil {
				t.Fatal(err)
			}
			got, err := chartOf(t, tc.older)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("without the new values (-defaults +got):\n%s", diff)
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

// TestClaimPolicyFollowsItsValues: who wants another guard, another action for one
// of them, or none, says so.
func TestClaimPolicyFollowsItsValues(t *testing.T) {
	const (
		policy  = "plumbline-claim-parameters "
		denying = "plumbline-claim-parameters-denied "
		all     = "addresses defaultRoutes disableEbpfPrograms hardwareAddr privateFlags rules sysctls umad vf"
	)
	tests := []struct {
		name, values string
		want         []string // each policy with its action and its settings
	}{
		{"defaults", "", []string{policy + "Warn " + all}},
		{"off", "claimPolicy: {enabled: false}", nil},
		{"refusals", "claimPolicy: {action: Deny}", []string{policy + "Deny " + all}},
		{"notes", "claimPolicy: {action: Audit}", []string{policy + "Audit " + all}},
		{"one refusal", "claimPolicy: {deny: [umad]}", []string{
			policy + "Warn addresses defaultRoutes disableEbpfPrograms hardwareAddr privateFlags rules sysctls vf", denying + "Deny umad",
		}},
		{"two refusals and notes", "claimPolicy: {action: Audit, deny: [umad, rules, umad], guarded: [rules, addresses]}", []string{
			policy + "Audit addresses", denying + "Deny rules umad",
		}},
		{"refusals alone", "claimPolicy: {deny: [umad], guarded: []}", []string{denying + "Deny umad"}},
		{"refusals of what is refused", "claimPolicy: {action: Deny, deny: [umad, rules], guarded: [rules]}", []string{policy + "Deny rules umad"}},
		{"one guard", "claimPolicy: {guarded: [umad]}", []string{policy + "Warn umad"}},
		{"one guard twice", "claimPolicy: {guarded: [umad, umad]}", []string{policy + "Warn umad"}},
		{"no guard", "claimPolicy: {guarded: []}", nil},
		{"dra.net is another's", "drivers: {net: {enabled: false}}", nil},
		{"observers", "{observe: true, claimPolicy: {deny: [umad]}}", nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, claimPolicies(t, tc.values)); diff != "" {
				t.Errorf("policies (-want +got):\n%s", diff)
			}
		})
	}
}

// claimPolicies are a line for each policy of claims' parameters that is bound, with
// its action and what it guards.
func claimPolicies(t *testing.T, values string) []string {
	t.Helper()
	objects := rendered(t, values)
	setting := regexp.MustCompile(`allow\.plumbline\.dev/(\w+)=true"$`)
	var lines []string
	for _, object := range objects {
		binding, ok := object.(*admissionv1.ValidatingAdmissionPolicyBinding)
		if !ok || !strings.HasPrefix(binding.Name, "plumbline-claim-parameters") {
			continue
		}
		policy := policyNamed(objects, binding.Spec.PolicyName)
		if policy == nil {
			t.Fatalf("binding %s is of policy %s, which is not there", binding.Name, binding.Spec.PolicyName)
		}
		words := []string{policy.Name}
		for _, action := range binding.Spec.ValidationActions {
			words = append(words, string(action))
		}
		shapes := 0
		for _, v := range policy.Spec.Validations {
			if m := setting.FindStringSubmatch(v.MessageExpression); m != nil {
				words = append(words, m[1])
			} else {
				shapes++
			}
		}
		if shapes != 1 {
			t.Errorf("policy %s looks at shapes %d times, want once", policy.Name, shapes)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}
