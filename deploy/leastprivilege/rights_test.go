// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package leastprivilege

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/deploy"
)

// TestShippedRole spells the shipped rights out, so that a new one is a line
// of a reviewed diff.
func TestShippedRole(t *testing.T) {
	ships(t, deploy.AgentServiceAccount,
		"get resource.k8s.io/resourceclaims",
		"patch resource.k8s.io/resourceclaims/status",
		"update resource.k8s.io/resourceclaims/status",
		"associated-node:patch resource.k8s.io/resourceclaims/driver dra.cpu",
		"associated-node:patch resource.k8s.io/resourceclaims/driver dra.net",
		"associated-node:update resource.k8s.io/resourceclaims/driver dra.cpu",
		"associated-node:update resource.k8s.io/resourceclaims/driver dra.net",
		"list resource.k8s.io/resourceslices",
		"watch resource.k8s.io/resourceslices",
		"create resource.k8s.io/resourceslices",
		"update resource.k8s.io/resourceslices",
		"delete resource.k8s.io/resourceslices",
		"list /pods",
		"watch /pods",
		"get /nodes",
		"create /events",
		"patch /events",
	)
	ships(t, deploy.ExplainerServiceAccount,
		"list resource.k8s.io/resourceslices",
		"watch resource.k8s.io/resourceslices",
		"list resource.k8s.io/deviceclasses",
		"watch resource.k8s.io/deviceclasses",
		"list resource.k8s.io/devicetaintrules",
		"watch resource.k8s.io/devicetaintrules",
		"list /nodes",
		"watch /nodes",
		"get resource.k8s.io/resourceclaims",
		"list resource.k8s.io/resourceclaims",
		"watch resource.k8s.io/resourceclaims",
		"get resource.k8s.io/resourceclaimtemplates",
		"list resource.k8s.io/resourceclaimtemplates",
		"watch resource.k8s.io/resourceclaimtemplates",
		"get /pods",
		"list /pods",
		"watch /pods",
		"create /events",
		"patch /events",
	)
}

// ships compares the rights of a shipped ClusterRole.
func ships(t *testing.T, account string, want ...string) {
	t.Helper()
	role, err := ShippedRole(deploy.Install(), account)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, rule := range role.Rules {
		got = append(got, rights(rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights of the shipped ClusterRole %s (-want +got):\n%s", account, diff)
	}
}

func TestRightsLeaveOutWhatEveryoneMay(t *testing.T) {
	got := rights([]string{"get", "list"}, []string{"authorization.k8s.io", "certificates.k8s.io"},
		[]string{"clustertrustbundles", "certificatesigningrequests"}, nil)
	want := []string{"get certificates.k8s.io/certificatesigningrequests", "list certificates.k8s.io/certificatesigningrequests"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
}
