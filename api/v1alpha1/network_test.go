// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/api/v1alpha1"
)

// Configurations of the mission's manifests, as they are written there.
var missions = map[string]string{
	"mpi": `{"interface": {"name": "dranet0"}}`,
	"tpu": `{"interface": {"mtu": 8896, "gsoMaxSize": 65536, "groMaxSize": 65536, "gsoIPv4MaxSize": 65536,
		"groIPv4MaxSize": 65536, "disableEbpfPrograms": true}, "ethtool": {"privateFlags": {"enable-max-rx-buffer-size": true}}}`,
}

const everything = `{
	"apiVersion": "plumbline.dev/v1alpha1", "kind": "NetworkConfig", "profile": "fast",
	"interface": {"name": "net1", "type": "macvlan", "mode": "bridge", "addressing": "static",
		"addresses": ["10.0.0.2/24", "fd00::2/64"], "dhcp": false, "mtu": 9000,
		"hardwareAddr": "02:00:00:00:00:01", "gsoMaxSize": 1, "groMaxSize": 2, "gsoIPv4MaxSize": 3, "groIPv4MaxSize": 524280,
		"disableEbpfPrograms": true, "forwarding": true, "arpIgnore": 8, "arpAnnounce": 2,
		"vrf": {"name": "vrf0", "table": 1000},
		"vf": {"vlan": 100, "vlanQoS": 3, "maxTxRate": 2000, "minTxRate": 1000, "spoofCheck": false, "trust": true}},
	"routes": [{"destination": "10.0.0.0/8", "gateway": "10.0.0.1", "source": "10.0.0.2", "scope": 0, "table": 0, "metric": 100, "mtu": 1400, "onlink": true},
		{"destination": "fd00::/8", "scope": 253}],
	"neighbors": [{"ipAddress": "10.0.0.9", "hardwareAddr": "02:00:00:00:00:09"},
		{"destination": "fd00::9", "hardwareAddr": "02:00:00:00:00:09"}],
	"sysctls": {"net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.conf.net1.rp_filter": "2"},
	"ethtool": {"features": {"tx-checksum-ip-generic": false}, "privateFlags": {"a-flag": true}},
	"rdma": {"umad": true, "issm": false}, "environment": "nccl",
	"container": {"mounts": [{"hostPath": "/home/kubernetes/bin/gib", "containerPath": "/usr/local/gib"}], "env": {"LD_LIBRARY_PATH": "/usr/local/gib/lib64"}}}`

func decode(t *testing.T, text string) *v1alpha1.NetworkConfig {
	t.Helper()
	c, err := v1alpha1.DecodeNetworkConfig([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

func TestAccepted(t *testing.T) {
	texts := []string{
		`{}`, everything, missions["mpi"], missions["tpu"],
		`{"rules": [{"priority": 32767, "source": "10.0.0.0/8", "destination": "10.1.0.0/16", "table": 7}]}`,
		`{"interface": {"addressing": "unnumbered"}}`,
		`{"interface": {"type": "vlan", "vlanID": 4094, "ipam": {"pool": "fabric"}}}`,
		`{"interface": {"dhcp": true, "addressing": "dhcp", "addresses": []}}`,
		`{"interface": {"mtu": 68, "name": "a-b_c.d12345678"}, "kind": "NetworkConfig"}`,
		`{"interface": {"dhcp": null}}`,
	}
	for _, text := range texts {
		if err := decode(t, text).Validate(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:                                   `parameters are empty: want an object`,
		`{`:                                  `parameters are no JSON: unexpected end of JSON input`,
		`[]`:                                 `parameters: Invalid value: is a list, want an object`,
		`{"interface": {"mtu": "9000"}}`:     `interface.mtu: Invalid value: "9000": is a string, want a whole number of at most 32 bits`,
		`{"interface": {"mtu": 1.5}}`:        `interface.mtu: Invalid value: 1.5: is a number, want a whole number of at most 32 bits`,
		`{"interface": {"mtu": 2147483648}}`: `interface.mtu: Invalid value: 2147483648: is a number, want a whole number of at most 32 bits`,
		`{"interface": {"dhcp": 1}}`:         `interface.dhcp: Invalid value: 1: is a number, want true or false`,
		`{"interface": {"MTU": 9000}}`:       `interface.MTU: Forbidden: no such field: did you mean mtu?`,
		`{"interfaces": {}}`:                 `interfaces: Forbidden: no such field: did you mean interface?`,
		`{"environment": "NCCL"}`:            `environment: Unsupported value: "NCCL": supported values: "none", "nccl"`,
		`{"environment": ["nccl"]}`:          `environment: Invalid value: is a list, want a string`,
		`{"rdma": {"verbs": true}}`:          `rdma.verbs: Forbidden: no such field: want one of issm, umad`,
		`{"routes": [{}, {"mtu": {}}]}`:      `routes[1].mtu: Invalid value: is an object, want a whole number`,
		`{"routes": [null]}`:                 `routes[0]: Invalid value: null: is null, want an object`,
		`{"interface": {"addresses": [1]}}`:  `interface.addresses[0]: Invalid value: 1: is a number, want a string`,
		`{"interface": []}`:                  `interface: Invalid value: is a list, want an object`,
		`{"routes": {}}`:                     `routes: Invalid value: is an object, want a list`,
		`{"sysctls": {"net.ipv4.tcp_fin_timeout": 30}}`: `sysctls[net.ipv4.tcp_fin_timeout]: Invalid value: 30: is a number, want a string`,
		`{"sysctls": []}`:                                                                        `sysctls: Invalid value: is a list, want an object`,
		`{"ethtool": {"features": true}}`:                                                        `ethtool.features: Invalid value: true: is a boolean, want an object`,
		`{"ethtool": {"features": {"tso": null}}}`:                                               `ethtool.features[tso]: Invalid value: null: is null, want true or false`,
		`{"ethtool": {"privateFlags": {"a": true, "a": false}}}`:                                 `ethtool.privateFlags.a: Forbidden: is there twice`,
		`{"interface": {"mtu": 1, "mtu": 2}}`:                                                    `interface.mtu: Forbidden: is there twice`,
		`{"apiVersion": "v1"}`:                                                                   `apiVersion: Unsupported value: "v1": supported values: "plumbline.dev/v1alpha1"`,
		`{"kind": "CPUConfig"}`:                                                                  `kind: Unsupported value: "CPUConfig": supported values: "NetworkConfig"`,
		`{"interface": {"mtu": 67}}`:                                                             `interface.mtu: Invalid value: 67: want 68-65535`,
		`{"interface": {"gsoMaxSize": 0}}`:                                                       `interface.gsoMaxSize: Invalid value: 0: want 1-524280`,
		`{"interface": {"name": "../../etc"}}`:                                                   `interface.name: Invalid value: "../../etc": want 1-15 letters, digits, '-', '_' and '.', not only dots`,
		`{"interface": {"name": ".."}}`:                                                          `interface.name: Invalid value: "..": want`,
		`{"interface": {"name": ""}}`:                                                            `interface.name: Invalid value: "": want`,
		`{"interface": {"name": "a b"}}`:                                                         `interface.name: Invalid value: "a b": want`,
		`{"interface": {"name": "a%d"}}`:                                                         `interface.name: Invalid value: "a%d": want`,
		`{"interface": {"name": "abcdefghijklmnop"}}`:                                            `interface.name: Invalid value: "abcdefghijklmnop": want`,
		`{"interface": {"name": "lo"}}`:                                                          `interface.name: Invalid value: "lo": is a name of the system: want another`,
		`{"interface": {"addresses": ["10.0.0.2"]}}`:                                             `interface.addresses[0]: Invalid value: "10.0.0.2": want an address with prefix length, such as 10.0.0.2/24`,
		`{"interface": {"addresses": ["::ffff:10.0.0.2/120"]}}`:                                  `interface.addresses[0]: Invalid value`,
		`{"interface": {"addresses": ["10.0.0.2/24"], "dhcp": true}}`:                            `interface.addresses: Forbidden: cannot be set beside dhcp, ipam or addressing: unnumbered`,
		`{"interface": {"addressing": "dhcp", "dhcp": false}}`:                                   `interface.dhcp: Invalid value: false: interface.addressing says dhcp`,
		`{"interface": {"addressing": "static", "dhcp": true}}`:                                  `interface.dhcp: Invalid value: true: interface.addressing says static`,
		`{"interface": {"type": "bridge"}}`:                                                      `interface.type: Unsupported value: "bridge": supported values: "passthrough", "macvlan", "ipvlan", "vlan"`,
		`{"interface": {"type": "vlan"}}`:                                                        `interface.vlanID: Required value: a tag of 1-4094 for type: vlan`,
		`{"interface": {"vlanID": 7}}`:                                                           `interface.vlanID: Forbidden: only with type: vlan`,
		`{"interface": {"type": "ipvlan", "mode": "bridge"}}`:                                    `interface.mode: Unsupported value: "bridge": supported values: "l2", "l3", "l3s"`,
		`{"interface": {"mode": "l2"}}`:                                                          `interface.mode: Forbidden: only with type: macvlan or ipvlan`,
		`{"interface": {"ipam": {}}}`:                                                            `interface.ipam.pool: Required value: the pool's name`,
		`{"interface": {"hardwareAddr": "x"}}`:                                                   `interface.hardwareAddr: Invalid value: "x": want a hardware address, such as 02:00:00:00:00:01`,
		`{"interface": {"arpIgnore": 4}}`:                                                        `interface.arpIgnore: Invalid value: 4: want 0, 1, 2, 3 or 8`,
		`{"interface": {"vrf": {"table": 254}}}`:                                                 `interface.vrf.table: Invalid value: 254: is a table of the system: want another`,
		`{"interface": {"vrf": {"name": "v"}}, "rules": [{"table": 1, "source": "10.0.0.0/8"}]}`: `rules: Forbidden: a VRF brings its own rule`,
		`{"routes": [{"gateway": "10.0.0.1"}]}`:                                                  `routes[0].destination: Required value: a prefix, such as 10.0.0.0/8`,
		`{"routes": [{"destination": "10.0.0.0/8"}]}`:                                            `routes[0].gateway: Required value: an address, unless scope is 253 (link)`,
		`{"routes": [{"destination": "10.0.0.0/8", "gateway": "fd00::1"}]}`:                      `routes[0].gateway: Invalid value: "fd00::1": want an address of the same family as 10.0.0.0/8`,
		`{"routes": [{"destination": "10.0.0.0/8", "gateway": "10.0.0.1", "scope": 254}]}`:       `routes[0].scope: Invalid value: 254: want 0 (universe) or 253 (link)`,
		`{"routes": [{"destination": "10.0.0.0/8", "gateway": "10.0.0.1", "table": -1}]}`:        `routes[0].table: Invalid value: -1: want 0-4294967295`,
		`{"rules": [{"priority": 32768}]}`:                                                       `rules[0].priority: Invalid value: 32768: want 0-32767`,
		`{"routes": [{"destination": "10.0.0.0/8", "scope": 253, "metric": 4294967296}]}`:        `routes[0].metric: Invalid value: 4294967296: want 0-4294967295`,
		`{"routes": [{"destination": "10.0.0.0/8", "scope": 253, "mtu": 67}]}`:                   `routes[0].mtu: Invalid value: 67: want 68-65535`,
		`{"routes": [{"destination": "fd00::/8", "scope": 253, "mtu": 1279}]}`:                   `routes[0].mtu: Invalid value: 1279: want at least 1280, the least of IPv6`,
		`{"routes": [{"destination": "10.0.0.0/8", "scope": 253, "onlink": true}]}`:              `routes[0].onlink: Forbidden: a route of scope 253 (link) has no gateway to reach`,
		`{"routes": [{"destination": "10.0.0.0/8", "gateway": "0.0.0.0"}]}`:                      `routes[0].gateway: Invalid value: "0.0.0.0": want the address of one station`,
		`{"routes": [{"destination": "10.0.0.0/8", "scope": 253}, {"destination": "10.1.0.0/8", "scope": 253, "table": 254}]}`: `routes[1]: Duplicate value: "destination 10.1.0.0/8 with the same table and metric"`,
		`{"rules": [{"table": 7}, {"table": 7}]}`:                                      `rules[1]: Duplicate value: "the same rule"`,
		`{"rules": [{"source": "10.0.0.0/8"}]}`:                                        `rules[0].table: Required value: the table to look into`,
		`{"rules": [{"source": "10.0.0.0/8", "destination": "fd00::/8", "table": 7}]}`: `rules[0].destination: Invalid value: "fd00::/8": want the same family as source 10.0.0.0/8`,
		`{"neighbors": [{"ipAddress": "10.0.0.9", "hardwareAddr": "02:00:00:00:00:09"}, {"destination": "10.0.0.9", "hardwareAddr": "02:00:00:00:00:08"}]}`: `neighbors[1].destination: Duplicate value: "10.0.0.9"`,
		`{"interface": {"mtu": 1279, "addresses": ["10.0.0.1/8", "fd00::1/64"]}}`:                                                                           `interface.mtu: Invalid value: 1279: want at least 1280, the least of IPv6, beside address fd00::1/64`,
		`{"interface": {"addresses": ["10.0.0.1/8", "10.0.0.1/24"]}}`:                                                                                       `interface.addresses[1]: Duplicate value: "10.0.0.1/24"`,
		`{"interface": {"addresses": ["224.0.0.1/8"]}}`:                                                                                                     `interface.addresses[0]: Invalid value: "224.0.0.1/8": want the address of one station`,
		`{"interface": {"hardwareAddr": "01:00:5e:00:00:01"}}`:                                                                                              `interface.hardwareAddr: Invalid value: "01:00:5e:00:00:01": want the address of one station`,
		`{"interface": {"type": "ipvlan", "hardwareAddr": "02:00:00:00:00:01"}}`:                                                                            `interface.hardwareAddr: Forbidden: an ipvlan has the address of its NIC`,
		`{"interface": {"ipam": {"pool": "a"}, "dhcp": true}}`:                                                                                              `interface.ipam: Forbidden: cannot be set beside dhcp or addressing: unnumbered`,
		`{"interface": {"ipam": {"pool": "A_b"}}}`:                                                                                                          `interface.ipam.pool: Invalid value: "A_b"`,
		`{"interface": {"name": "a", "vrf": {"name": "a"}}}`:                                                                                                `interface.vrf.name: Invalid value: "a": is the interface's own name: want another`,
		`{"neighbors": [{"ipAddress": "10.0.0.9"}]}`:                                                                                                        `neighbors[0].hardwareAddr: Required value`,
		`{"ethtool": {"features": {"a b": true}}}`:                                                                                                          `ethtool.features[a b]: Invalid value: "a b": want a name as ethtool prints it`,
	} {
		c, err := v1alpha1.DecodeNetworkConfig([]byte(text))
		if err == nil {
			err = c.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

// Every field wins over the layer below and survives the layer above that does
// not name it. Fields that merging forgets fail here.
func TestMergeKnowsEveryField(t *testing.T) {
	full := decode(t, everything)
	full.APIVersion, full.Kind = "", ""
	one, pool := int32(7), "fabric"
	full.Interface.VLANID = &one
	full.Interface.IPAM = &v1alpha1.IPAMConfig{Pool: &pool}
	full.Rules = []v1alpha1.RuleConfig{{Priority: &one}}
	requireAllSet(t, "", reflect.ValueOf(*full))

	empty := &v1alpha1.NetworkConfig{}
	for _, layers := range [][]*v1alpha1.NetworkConfig{{full}, {empty, full}, {full, empty}} {
		if diff := cmp.Diff(full, v1alpha1.MergeNetworkConfigs(layers...)); diff != "" {
			t.Errorf("merged (-want +got):\n%s", diff)
		}
	}
}

// requireAllSet keeps the test above honest when a field is added.
func requireAllSet(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if name == "APIVersion" || name == "Kind" {
			continue
		}
		f := v.Field(i)
		if f.IsZero() {
			t.Errorf("the test's configuration lacks %s%s", path, name)
			continue
		}
		for f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		if f.Kind() == reflect.Struct {
			requireAllSet(t, path+name+".", f)
		}
	}
}

// A device without an interface has character devices to ask for, and nothing
// else.
func TestRDMAOnly(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "",
		`{"kind": "NetworkConfig", "rdma": {"umad": true, "issm": false}}`: "",
		`{"rdma": {"umad": true}, "interface": {"vrf": {"name": "v"}}}`:    "interface.vrf.name: Forbidden: the device has no network interface: want nothing but rdma",
		`{"environment": "nccl"}`: "",
		`{"container": {"mounts": [{"hostPath": "/opt/a", "containerPath": "/opt/a"}], "env": {"A": "b"}}}`: "",
		`{"interface": {"forwarding": false}}`:       "interface.forwarding: Forbidden",
		`{"profile": "fast"}`:                        "profile: Forbidden",
		`{"routes": []}`:                             "routes: Forbidden",
		`{"neighbors": [{"ipAddress": "10.0.0.1"}]}`: "neighbors[0].ipAddress: Forbidden",
		`{"ethtool": {"features": {"tso": false}}, "interface": {"mtu": 68}}`: "ethtool.features[tso]: Forbidden",
	} {
		err := decode(t, text).ValidateRDMAOnly()
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
