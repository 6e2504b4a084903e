// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package configtest

import "strings"

// objectAt makes the object that a field lies in, where it is not there, and says
// its path. A list gets one more element.
func objectAt(doc map[string]any, where string) (object map[string]any, path string) {
	switch where {
	case "":
		return doc, ""
	case "interface.vrf", "interface.ipam", "interface.vf":
		iface, _ := objectAt(doc, "interface")
		name := where[len("interface."):]
		return child(iface, name), where
	case "container.mounts[]":
		mount, path := element(child(doc, "container"), "mounts", map[string]any{"hostPath": "/opt/a", "containerPath": "/opt/of-the-host"})
		return mount, "container." + path
	case "routes[]":
		return element(doc, "routes", map[string]any{"destination": "172.16.0.0/12", "scope": 253})
	case "rules[]":
		return element(doc, "rules", map[string]any{"table": 7, "source": "172.16.0.0/12"})
	case "neighbors[]":
		return element(doc, "neighbors", map[string]any{"ipAddress": "172.16.0.1", "hardwareAddr": "02:00:00:00:00:09"})
	}
	return child(doc, where), where
}

func child(object map[string]any, name string) map[string]any {
	made, ok := object[name].(map[string]any)
	if !ok {
		made = map[string]any{}
		object[name] = made
	}
	return made
}

// element puts an element in front of a list, so that no element before it can be the
// cause of an error.
func element(doc map[string]any, list string, value map[string]any) (map[string]any, string) {
	rest, _ := doc[list].([]any)
	doc[list] = append([]any{value}, rest...)
	return value, list + "[0]"
}

// combination breaks a document and the object of it that most fields lie in,
// and says where.
type combination struct {
	path string
	make func(doc, object map[string]any)
}

// combinations are fields that are right each by itself, and not together.
var combinations = []combination{
	{"interface.addresses", func(_, i map[string]any) { i["addresses"], i["dhcp"] = []any{"10.0.0.2/24"}, true }},
	{"interface.addresses", func(_, i map[string]any) { i["addresses"], i["addressing"] = []any{"10.0.0.2/24"}, "unnumbered" }},
	{"interface.addresses", func(_, i map[string]any) {
		i["addresses"], i["ipam"] = []any{"10.0.0.2/24"}, map[string]any{"pool": "a"}
	}},
	{"interface.dhcp", func(_, i map[string]any) { i["dhcp"], i["addressing"] = false, "dhcp" }},
	{"interface.dhcp", func(_, i map[string]any) { i["dhcp"], i["addressing"] = true, "static" }},
	{"interface.dhcp", func(_, i map[string]any) { i["dhcp"], i["addressing"] = true, "unnumbered" }},
	{"interface.ipam", func(_, i map[string]any) { i["ipam"], i["dhcp"] = map[string]any{"pool": "a"}, true }},
	{"interface.ipam.pool", func(_, i map[string]any) { i["ipam"] = map[string]any{} }},
	{"interface.vlanID", func(_, i map[string]any) { i["type"], i["vlanID"] = "macvlan", 7 }},
	{"interface.vlanID", func(_, i map[string]any) { delete(i, "vlanID"); i["type"] = "vlan" }},
	{"interface.mode", func(_, i map[string]any) { i["type"], i["mode"] = "passthrough", "bridge" }},
	{"interface.mode", func(_, i map[string]any) { i["type"], i["mode"] = "macvlan", "l2" }},
	{"interface.mode", func(_, i map[string]any) { i["type"], i["mode"] = "ipvlan", "bridge" }},
	{"interface.hardwareAddr", func(_, i map[string]any) { i["type"], i["hardwareAddr"] = "ipvlan", "02:00:00:00:00:01" }},
	{"interface.mtu", func(_, i map[string]any) { i["mtu"], i["addresses"] = 1279, []any{"fd00::2/64"} }},
	{"interface.vrf.name", func(_, i map[string]any) { i["vrf"] = map[string]any{"table": 7} }},
	{"interface.vrf.name", func(_, i map[string]any) { i["name"], i["vrf"] = "a", map[string]any{"name": "a"} }},
	{"interface.vf.vlanQoS", func(_, i map[string]any) { i["vf"] = map[string]any{"vlanQoS": 1} }},
	{"interface.vf.vlanQoS", func(_, i map[string]any) { i["vf"] = map[string]any{"vlanQoS": 0, "vlan": 0} }},
	{"interface.vf.minTxRate", func(_, i map[string]any) { i["vf"] = map[string]any{"minTxRate": 2, "maxTxRate": 1} }},
	{"rules", func(doc, i map[string]any) {
		i["vrf"], doc["rules"] = map[string]any{"name": "v"}, []any{map[string]any{"table": 7, "source": "10.0.0.0/8"}}
	}},
	{"rules[1]", func(doc, _ map[string]any) {
		doc["rules"] = []any{map[string]any{"table": 7}, map[string]any{"table": 7}}
	}},
	{"rules[0].table", func(doc, _ map[string]any) { doc["rules"] = []any{map[string]any{"source": "10.0.0.0/8"}} }},
	{"rules[0].destination", func(doc, _ map[string]any) {
		doc["rules"] = []any{map[string]any{"table": 7, "source": "10.0.0.0/8", "destination": "fd00::/8"}}
	}},
	{"routes[0].destination", func(doc, _ map[string]any) { doc["routes"] = []any{map[string]any{"scope": 253}} }},
	{"routes[0].gateway", func(doc, _ map[string]any) { doc["routes"] = []any{map[string]any{"destination": "10.0.0.0/8"}} }},
	{"routes[0].gateway", func(doc, _ map[string]any) {
		doc["routes"] = []any{map[string]any{"destination": "10.0.0.0/8", "gateway": "fd00::1"}}
	}},
	{"routes[0].source", func(doc, _ map[string]any) {
		doc["routes"] = []any{map[string]any{"destination": "fd00::/8", "scope": 253, "source": "10.0.0.1"}}
	}},
	{"routes[0].onlink", func(doc, _ map[string]any) {
		doc["routes"] = []any{map[string]any{"destination": "10.0.0.0/8", "scope": 253, "onlink": true}}
	}},
	{"routes[0].mtu", func(doc, _ map[string]any) {
		doc["routes"] = []any{map[string]any{"destination": "fd00::/8", "scope": 253, "mtu": 1279}}
	}},
	{"routes[1]", func(doc, _ map[string]any) {
		doc["routes"] = []any{map[string]any{"destination": "10.0.0.0/8", "scope": 253}, map[string]any{"destination": "10.9.9.9/8", "scope": 253, "table": 254}}
	}},
	{"neighbors[0].ipAddress", func(doc, _ map[string]any) {
		doc["neighbors"] = []any{map[string]any{"hardwareAddr": "02:00:00:00:00:09"}}
	}},
	{"neighbors[0].hardwareAddr", func(doc, _ map[string]any) { doc["neighbors"] = []any{map[string]any{"ipAddress": "10.0.0.1"}} }},
	{"neighbors[0].destination", func(doc, _ map[string]any) {
		doc["neighbors"] = []any{map[string]any{"ipAddress": "10.0.0.1", "destination": "10.0.0.2", "hardwareAddr": "02:00:00:00:00:09"}}
	}},
	{"neighbors[1].destination", func(doc, _ map[string]any) {
		doc["neighbors"] = []any{map[string]any{"ipAddress": "fd00::1", "hardwareAddr": "02:00:00:00:00:09"},
			map[string]any{"destination": "fd00:0::1", "hardwareAddr": "02:00:00:00:00:08"}}
	}},
	{"ethtool.features[a b]", func(doc, _ map[string]any) { child(doc, "ethtool")["features"] = map[string]any{"a b": true} }},
	{"ethtool.features[tso]", func(doc, _ map[string]any) { child(doc, "ethtool")["features"] = map[string]any{"tso": nil} }},
	{"ethtool.privateFlags[]", func(doc, _ map[string]any) { child(doc, "ethtool")["privateFlags"] = map[string]any{"": true} }},
	{"routes[0]", func(doc, _ map[string]any) { doc["routes"] = []any{nil} }},
	{"container.mounts[0]", func(doc, _ map[string]any) { child(doc, "container")["mounts"] = []any{nil} }},
	{"container.mounts[0].hostPath", func(doc, _ map[string]any) {
		child(doc, "container")["mounts"] = []any{map[string]any{"containerPath": "/opt/a"}}
	}},
	{"container.mounts[0].containerPath", func(doc, _ map[string]any) {
		child(doc, "container")["mounts"] = []any{map[string]any{"hostPath": "/opt/a"}}
	}},
	{"container.mounts[1].containerPath", func(doc, _ map[string]any) {
		child(doc, "container")["mounts"] = []any{map[string]any{"hostPath": "/opt/a", "containerPath": "/opt/a"}, map[string]any{"hostPath": "/opt/b", "containerPath": "/opt/a"}}
	}},
	{"container.env[A-B]", func(doc, _ map[string]any) { child(doc, "container")["env"] = map[string]any{"A-B": ""} }},
	{"container.env[1A]", func(doc, _ map[string]any) { child(doc, "container")["env"] = map[string]any{"1A": ""} }},
	{"container.env[]", func(doc, _ map[string]any) { child(doc, "container")["env"] = map[string]any{"": "a"} }},
	{"container.env[A]", func(doc, _ map[string]any) { child(doc, "container")["env"] = map[string]any{"A": "a\nb"} }},
	{"container.env[B]", func(doc, _ map[string]any) { child(doc, "container")["env"] = map[string]any{"B": "a\x00"} }},
	{"container.env[C]", func(doc, _ map[string]any) { child(doc, "container")["env"] = map[string]any{"C": nil} }},
	{"container.env[D]", func(doc, _ map[string]any) {
		child(doc, "container")["env"] = map[string]any{"D": strings.Repeat("v", 4097)}
	}},
	{"container.env[NCCL_TOPO_FILE]", func(doc, _ map[string]any) { child(doc, "container")["env"] = map[string]any{"NCCL_TOPO_FILE": "/a"} }},
	{"container.env[PLUMBLINE_CLAIM_1_0]", func(doc, _ map[string]any) {
		child(doc, "container")["env"] = map[string]any{"PLUMBLINE_CLAIM_1_0": "dra.net/eth0"}
	}},
	{"apiVersion", func(doc, _ map[string]any) { doc["apiVersion"] = "v1" }},
	{"kind", func(doc, _ map[string]any) { doc["kind"] = "CPUConfig" }},
}

func (g generator) combine(doc map[string]any) string {
	c := combinations[g.r.IntN(len(combinations))]
	c.make(doc, child(doc, "interface"))
	return c.path
}
