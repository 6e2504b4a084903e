// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/api/v1alpha1"
)

func TestEffective(t *testing.T) {
	// defaults are what is said where no layer says it.
	defaults := func(more v1alpha1.Origins) v1alpha1.Origins {
		all := v1alpha1.Origins{"interface.type": "default", "interface.addressing": "default", "rdma.umad": "default", "rdma.issm": "default", "environment": "default"}
		for path, source := range more {
			all[path] = source
		}
		return all
	}
	for _, test := range []struct {
		name                 string
		profile, class, mine string
		want                 string
		origins              v1alpha1.Origins
	}{
		{
			name: "nothing is said",
			want: `{"interface": {"type": "passthrough", "addressing": "static"}, "rdma": {"umad": false, "issm": false}, "environment": "none"}`,
		},
		{
			name:    "each layer wins over those below",
			profile: `{"interface": {"name": "p", "mtu": 1, "arpIgnore": 1}}`,
			class:   `{"interface": {"mtu": 2, "arpIgnore": 2}}`,
			mine:    `{"interface": {"arpIgnore": 0}}`,
			want: `{"interface": {"name": "p", "mtu": 2, "arpIgnore": 0, "type": "passthrough", "addressing": "static"},
				"rdma": {"umad": false, "issm": false}, "environment": "none"}`,
			origins: v1alpha1.Origins{"interface.name": "profile", "interface.mtu": "class", "interface.arpIgnore": "claim"},
		},
		{
			name:  "false and 0 are decisions",
			class: `{"interface": {"dhcp": true, "forwarding": true, "gsoMaxSize": 7}, "rdma": {"umad": true, "issm": true}}`,
			mine:  `{"interface": {"dhcp": false, "forwarding": false, "gsoMaxSize": 0}, "rdma": {"umad": false}}`,
			want: `{"interface": {"dhcp": false, "forwarding": false, "gsoMaxSize": 0, "type": "passthrough", "addressing": "static"},
				"rdma": {"umad": false, "issm": true}, "environment": "none"}`,
			origins: v1alpha1.Origins{"interface.dhcp": "claim", "interface.forwarding": "claim", "interface.gsoMaxSize": "claim",
				"rdma.umad": "claim", "rdma.issm": "class"},
		},
		{
			name:  "lists replace and do not append",
			class: `{"interface": {"addresses": ["10.0.0.1/24", "10.0.0.2/24"]}, "routes": [{"destination": "a", "metric": 1}, {"destination": "b"}], "rules": [{"table": 7}]}`,
			mine:  `{"interface": {"addresses": ["10.0.0.3/24"]}, "routes": [{"destination": "c"}], "rules": []}`,
			want: `{"interface": {"addresses": ["10.0.0.3/24"], "type": "passthrough", "addressing": "static"}, "routes": [{"destination": "c"}],
				"rules": [], "rdma": {"umad": false, "issm": false}, "environment": "none"}`,
			origins: v1alpha1.Origins{"interface.addresses[0]": "claim", "routes[0].destination": "claim", "rules": "claim"},
		},
		{
			name:  "features and flags merge by name",
			class: `{"ethtool": {"features": {"tso": true, "gro": true}, "privateFlags": {"a": true}}}`,
			mine:  `{"ethtool": {"features": {"gro": false}}}`,
			want: `{"interface": {"type": "passthrough", "addressing": "static"}, "rdma": {"umad": false, "issm": false}, "environment": "none",
				"ethtool": {"features": {"tso": true, "gro": false}, "privateFlags": {"a": true}}}`,
			origins: v1alpha1.Origins{"ethtool.features[tso]": "class", "ethtool.features[gro]": "claim", "ethtool.privateFlags[a]": "class"},
		},
		{
			name:  "objects merge by field",
			class: `{"interface": {"vrf": {"name": "v", "table": 7}, "ipam": {"pool": "p"}}}`,
			mine:  `{"interface": {"vrf": {"table": 8}, "ipam": {}}}`,
			want: `{"interface": {"vrf": {"name": "v", "table": 8}, "ipam": {"pool": "p"}, "type": "passthrough", "addressing": "static"},
				"rdma": {"umad": false, "issm": false}, "environment": "none"}`,
			origins: v1alpha1.Origins{"interface.vrf.name": "class", "interface.vrf.table": "claim", "interface.ipam.pool": "class"},
		},
		{
			name:    "none takes a class's environment back",
			class:   `{"environment": "nccl"}`,
			mine:    `{"environment": "none"}`,
			want:    `{"interface": {"type": "passthrough", "addressing": "static"}, "rdma": {"umad": false, "issm": false}, "environment": "none"}`,
			origins: v1alpha1.Origins{"environment": "claim"},
		},
		{
			name:    "dhcp: false over addressing: dhcp",
			class:   `{"interface": {"addressing": "dhcp"}}`,
			mine:    `{"interface": {"dhcp": false}}`,
			want:    `{"interface": {"dhcp": false, "type": "passthrough", "addressing": "static"}, "rdma": {"umad": false, "issm": false}, "environment": "none"}`,
			origins: v1alpha1.Origins{"interface.dhcp": "claim"},
		},
		{
			name:    "dhcp: false has nothing against addressing: unnumbered",
			class:   `{"interface": {"addressing": "unnumbered"}}`,
			mine:    `{"interface": {"dhcp": false}}`,
			want:    `{"interface": {"dhcp": false, "type": "passthrough", "addressing": "unnumbered"}, "rdma": {"umad": false, "issm": false}, "environment": "none"}`,
			origins: v1alpha1.Origins{"interface.dhcp": "claim", "interface.addressing": "class"},
		},
		{
			name:    "dhcp: true over addressing: static",
			class:   `{"interface": {"addressing": "static"}}`,
			mine:    `{"interface": {"dhcp": true}}`,
			want:    `{"interface": {"dhcp": true, "type": "passthrough", "addressing": "dhcp"}, "rdma": {"umad": false, "issm": false}, "environment": "none"}`,
			origins: v1alpha1.Origins{"interface.dhcp": "claim", "interface.addressing": "claim"},
		},
		{
			name:    "addressing over dhcp: true",
			class:   `{"interface": {"dhcp": true}}`,
			mine:    `{"interface": {"addressing": "unnumbered"}}`,
			want:    `{"interface": {"type": "passthrough", "addressing": "unnumbered"}, "rdma": {"umad": false, "issm": false}, "environment": "none"}`,
			origins: v1alpha1.Origins{"interface.addressing": "claim"},
		},
		{
			name:    "a type brings its mode",
			class:   `{"interface": {"type": "ipvlan"}}`,
			mine:    `{"interface": {"type": "macvlan"}, "profile": ""}`,
			want:    `{"profile": "", "interface": {"type": "macvlan", "mode": "bridge", "addressing": "static"}, "rdma": {"umad": false, "issm": false}, "environment": "none"}`,
			origins: v1alpha1.Origins{"interface.type": "claim", "interface.mode": "default", "profile": "claim"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var layers []v1alpha1.Layer
			for _, l := range []struct{ source, text string }{{"profile", test.profile}, {"class", test.class}, {"claim", test.mine}} {
				if l.text != "" {
					layers = append(layers, v1alpha1.Layer{Source: l.source, Config: decode(t, l.text)})
				}
			}
			got, origins := v1alpha1.EffectiveNetworkConfig(layers...)
			if diff := cmp.Diff(decode(t, test.want), got); diff != "" {
				t.Errorf("effective (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(defaults(test.origins), origins); diff != "" {
				t.Errorf("origins (-want +got):\n%s", diff)
			}
			requireOriginOfEach(t, got, origins)
		})
	}
}

// requireOriginOfEach wants origins of the fields that are set, and of no other.
func requireOriginOfEach(t *testing.T, c *v1alpha1.NetworkConfig, origins v1alpha1.Origins) {
	t.Helper()
	paths := map[string]bool{}
	for _, l := range c.FieldValues() {
		if origins[l.Path] == "" {
			t.Errorf("%s = %v comes from nowhere", l.Path, l.Value)
		}
		paths[l.Path] = true
	}
	for path := range origins {
		if !paths[path] {
			t.Errorf("%s has an origin and no value", path)
		}
	}
}

// The layers are used for other devices too.
func TestMergingLeavesTheLayersAlone(t *testing.T) {
	class, claim := decode(t, everything), decode(t, `{"interface": {"dhcp": true, "addresses": []}, "ethtool": {"features": {"b": false}}, "rdma": {}}`)
	before, err := json.Marshal(class)
	if err != nil {
		t.Fatal(err)
	}
	v1alpha1.EffectiveNetworkConfig(v1alpha1.Layer{Source: "class", Config: class}, v1alpha1.Layer{Source: "claim", Config: claim})
	if after, err := json.Marshal(class); err != nil || string(after) != string(before) {
		t.Errorf("merging changed a layer: %s, was %s", after, before)
	}
}
