// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

// Fate is what becomes of something of an interface that leaves the host.
type Fate string

// The three lists, and what is on none of them.
const (
	// Restored is put back, and verified.
	Restored Fate = "restored"
	// Recreated is kept or made again by the kernel, and only verified.
	Recreated Fate = "recreated"
	// Refused cannot be brought back: a NIC that has it is not taken.
	Refused Fate = "refused"
	// Elsewhere is nothing of the host's: it ends with the pod.
	Elsewhere Fate = "elsewhere"
)

// Entry is one thing of an interface.
type Entry struct {
	What string
	Fate Fate
	// Fields are the fields of a configuration that change it, as JSON paths.
	Fields []string
	// differs says what is not as it was; nil where reading the kernel tells
	// nothing.
	differs func(c *comparison) []string
}

// Entries is everything of an interface. A field of the configuration that is on
// none of them would change the host for good: a test refuses it.
var Entries = []Entry{
	{What: "name", Fate: Restored, Fields: []string{"interface.name"}, differs: nameDiffers},
	{What: "alternative names", Fate: Restored, differs: altNamesDiffer},
	{What: "up or down", Fate: Restored, differs: stateDiffers},
	{What: "settings", Fate: Restored, differs: settingsDiffer, Fields: []string{
		"interface.mtu", "interface.hardwareAddr",
		"interface.gsoMaxSize", "interface.groMaxSize", "interface.gsoIPv4MaxSize", "interface.groIPv4MaxSize",
	}},
	{What: "VRF", Fate: Restored, Fields: []string{"interface.vrf.name", "interface.vrf.table"}, differs: vrfDiffers},
	{What: "addresses", Fate: Restored, differs: addressesDiffer, Fields: []string{"interface.addresses[]", "interface.addressing", "interface.dhcp"}},
	{What: "routes", Fate: Restored, differs: routesDiffer, Fields: []string{
		"routes[].destination", "routes[].gateway", "routes[].source", "routes[].scope", "routes[].table",
		"routes[].metric", "routes[].mtu", "routes[].onlink",
	}},
	{What: "neighbours", Fate: Restored, differs: neighboursDiffer,
		Fields: []string{"neighbors[].ipAddress", "neighbors[].destination", "neighbors[].hardwareAddr"}},
	{What: "sysctls", Fate: Restored, differs: sysctlsReadBack,
		Fields: []string{"interface.forwarding", "interface.arpIgnore", "interface.arpAnnounce"}},
	{What: "queueing disciplines", Fate: Restored, differs: queueingDiffers},
	{What: "features", Fate: Restored, Fields: []string{"ethtool.features{}"}, differs: featuresDiffer},
	{What: "private flags", Fate: Restored, Fields: []string{"ethtool.privateFlags{}"}, differs: flagsDiffer},
	{What: "eBPF programs", Fate: Restored, Fields: []string{"interface.disableEbpfPrograms"}, differs: programsDiffer},

	// The kernel makes it again once there is a carrier, by addrgenmode and the
	// sysctls of IPv6, which are restored.
	{What: "link-local address", Fate: Recreated},
	{What: "addresses and routes of router advertisements, temporary addresses", Fate: Recreated},
	{What: "routes of addresses", Fate: Recreated},
	{What: "rules that name the interface", Fate: Recreated, differs: rulesDiffer},
	{What: "learned neighbours", Fate: Recreated},

	{What: "classful queueing disciplines, shared blocks", Fate: Refused},
	{What: "filters that are no eBPF programs", Fate: Refused},
	{What: "XDP programs", Fate: Refused},
	{What: "routes through nexthop objects", Fate: Refused},
	{What: "membership in a bridge, bond or team", Fate: Refused},
	{What: "links on top of it", Fate: Refused},
	{What: "names that are not UTF-8", Fate: Refused},

	{What: "rules of the pod", Fate: Elsewhere,
		Fields: []string{"rules[].priority", "rules[].source", "rules[].destination", "rules[].table"}},
	{What: "XDP and tcx programs of the pod", Fate: Elsewhere},
	{What: "device files of containers", Fate: Elsewhere, Fields: []string{"rdma.umad", "rdma.issm"}},
}
