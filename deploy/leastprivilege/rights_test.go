// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package leastprivilege

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/deploy"
)

// TestShippedRules spells the shipped rights out, so that a new one is a line
// of a reviewed diff.
func TestShippedRules(t *testing.T) {
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
		"get plumbline.dev/hostreports",
		"create plumbline.dev/hostreports",
		"update plumbline.dev/hostreports",
		"list plumbline.dev/hostpolicies",
		"watch plumbline.dev/hostpolicies",
		"list plumbline.dev/networkaddresspools",
		"watch plumbline.dev/networkaddresspools",
		"list plumbline.dev/networkaddressblocks",
		"watch plumbline.dev/networkaddressblocks",
		"patch plumbline.dev/networkaddressblocks/status",
		"create /events",
		"patch /events",
	)
	ships(t, deploy.OperatorServiceAccount,
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
		"patch /nodes",
		"patch /nodes/status",
		"list plumbline.dev/hostreports",
		"watch plumbline.dev/hostreports",
		"list plumbline.dev/installations",
		"watch plumbline.dev/installations",
		"create plumbline.dev/installations",
		"update plumbline.dev/installations/status plumbline",
		"list plumbline.dev/networkaddresspools",
		"watch plumbline.dev/networkaddresspools",
		"update plumbline.dev/networkaddresspools",
		"update plumbline.dev/networkaddresspools/status",
		"list plumbline.dev/networkaddressblocks",
		"watch plumbline.dev/networkaddressblocks",
		"create plumbline.dev/networkaddressblocks",
		"update plumbline.dev/networkaddressblocks",
		"delete plumbline.dev/networkaddressblocks",
		"list resource.k8s.io/resourceclaims",
		"list networking.k8s.io/servicecidrs",
		"watch networking.k8s.io/servicecidrs",
		// In its own namespace.
		"create coordination.k8s.io/leases",
		"get coordination.k8s.io/leases plumbline-operator",
		"update coordination.k8s.io/leases plumbline-operator",
		"list /pods",
		"watch /pods",
		"list apps/daemonsets",
		"watch apps/daemonsets",
	)
}

// ships compares the shipped rights of an account in the installation's namespace.
func ships(t *testing.T, account string, want ...string) {
	t.Helper()
	rules, err := ShippedRules(deploy.Install(), account, deploy.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, rule := range rules {
		got = append(got, rights(rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shipped rights of %s (-want +got):\n%s", account, diff)
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
