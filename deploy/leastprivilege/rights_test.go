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
	role, err := ShippedRole(deploy.Install())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, rule := range role.Rules {
		got = append(got, rights(rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames)...)
	}
	want := []string{
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
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights of the shipped ClusterRole (-want +got):\n%s", diff)
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
