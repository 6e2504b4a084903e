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

// The policy that keeps an agent to its own node's slices is about the account that
// the agent runs as: of any other name it would never apply.
func TestPolicyIsOfTheAgentsAccount(t *testing.T) {
	objects := decode(t, deploy.Install())
	agent := only[*appsv1.DaemonSet](t, objects)
	account := "system:serviceaccount:" + agent.Namespace + ":" + agent.Spec.Template.Spec.ServiceAccountName
	found := 0
	for _, o := range objects {
		policy, ok := o.(*admissionv1.ValidatingAdmissionPolicy)
		if !ok {
			continue
		}
		for _, c := range policy.Spec.MatchConditions {
			if !strings.Contains(c.Expression, "system:serviceaccount:") {
				continue
			}
			if found++; !strings.Contains(c.Expression, `"`+account+`"`) {
				t.Errorf("policy %s: %s, want %s", policy.Name, c.Expression, account)
			}
		}
	}
	if found == 0 {
		t.Error("no policy is about an account")
	}
}
