// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"

	"plumbline.dev/plumbline/deploy"
)

// The policies that keep a program to what is its own are about the account that it
// runs as: of any other name they would never apply.
func TestPoliciesAreOfTheirAccounts(t *testing.T) {
	objects := decode(t, deploy.Install())
	agent, operator := only[*appsv1.DaemonSet](t, objects), only[*appsv1.Deployment](t, objects)
	accounts := map[string]string{
		"plumbline-agent-":    agent.Namespace + ":" + agent.Spec.Template.Spec.ServiceAccountName,
		"plumbline-operator-": operator.Namespace + ":" + operator.Spec.Template.Spec.ServiceAccountName,
	}
	found := map[string]int{}
	for _, o := range objects {
		policy, ok := o.(*admissionv1.ValidatingAdmissionPolicy)
		if !ok {
			continue
		}
		for _, c := range policy.Spec.MatchConditions {
			if !strings.Contains(c.Expression, "system:serviceaccount:") {
				continue
			}
			for program, account := range accounts {
				if !strings.HasPrefix(policy.Name, program) {
					continue
				}
				if found[program]++; !strings.Contains(c.Expression, `"system:serviceaccount:`+account+`"`) {
					t.Errorf("policy %s: %s, want %s", policy.Name, c.Expression, account)
				}
			}
		}
	}
	if len(found) != len(accounts) {
		t.Errorf("policies about accounts: %v, want some of each of %v", found, accounts)
	}
}
