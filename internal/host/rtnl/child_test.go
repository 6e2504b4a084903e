// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// A link on another one says how it stands there, as it was made.
func TestChildOfLink(t *testing.T) {
	for add, want := range map[string]*Child{
		"type macvlan mode vepa":     {Kind: "macvlan", Mode: "vepa"},
		"type macvlan mode passthru": {Kind: "macvlan", Mode: "passthru"},
		"type ipvlan mode l2":        {Kind: "ipvlan", Mode: "l2", Flag: "bridge"},
		"type ipvlan mode l3s vepa":  {Kind: "ipvlan", Mode: "l3s", Flag: "vepa"},
		"type vlan id 105":           {Kind: "vlan", VLANID: 105},
		"type macsec":                nil,
	} {
		t.Run(add, func(t *testing.T) {
			ns := hosttest.NewNamespace(t)
			ns.Run(t, "ip link add below type veth peer name other")
			addLink(t, ns, "link add link below name x "+add, true)
			link, err := dialIn(t, ns).LinkByName("x")
			if err != nil || link == nil {
				t.Fatal(link, err)
			}
			if diff := cmp.Diff(want, link.Child); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
