// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

// Fate is what becomes of something of an interface that leaves the host.
type Fate string

// The fates. docs/restored.md is the same for people.
const (
	// Restored is put back, and verified.
	Restored Fate = "restored"
	// Recreated is kept or made again by the kernel, and only verified.
	Recreated Fate = "recreated"
	// Refused cannot be brought back: a NIC that has it is not taken.
	Refused Fate = "refused"
	// Elsewhere is nothing of the host's: it ends with the pod.
	Elsewhere Fate = "elsewhere"
	// Untouched stays with the host: neither a move nor a pod reaches it.
	Untouched Fate = "untouched"
	// Lost does not come back, and nothing tells that it was there.
	Lost Fate = "lost"
)

// Entry is one thing of an interface.
type Entry struct {
	What string
	Fate Fate
	// State are the fields of State that hold it, as in a record, and Ethtool the
	// groups of ethtool.Settings.
	State, Ethtool []string
	// Fields are the fields of a configuration that change it, as JSON paths.
	Fields []string
	// differs says what is not as it was; nil where reading the kernel tells
	// nothing.
	differs func(c *comparison) []string
}

// Entries is everything of an interface. A field of the configuration that is on
// none of them would change the host for good: a test refuses it.
var Entries = []Entry{
	{What: "name", Fate: Restored, State: []string{"name"}, Fields: []string{"interface.name"}, differs: nameDiffers},
	{What: "alternative names", Fate: Restored, State: []string{"altNames"}, differs: altNamesDiffer},
	{What: "up or down", Fate: Restored, State: []string{"up"}, differs: stateDiffers},
	{What: "settings", Fate: Restored, State: []string{"settings"}, differs: settingsDiffer, Fields: []string{
		"interface.mtu", "interface.hardwareAddr",
		"interface.gsoMaxSize", "interface.groMaxSize", "interface.gsoIPv4MaxSize", "interface.groIPv4MaxSize",
	}},
	{What: "VRF", Fate: Restored, State: []string{"vrf"}, Fields: []string{"interface.vrf.name", "interface.vrf.table"}, differs: vrfDiffers},
	{What: "addresses", Fate: Restored, State: []string{"addresses", "prefixes"}, differs: addressesDiffer,
		Fields: []string{"interface.addresses[]", "interface.addressing", "interface.dhcp"}},
	{What: "routes", Fate: Restored, State: []string{"routes"}, differs: routesDiffer, Fields: []string{
		"routes[].destination", "routes[].gateway", "routes[].source", "routes[].scope", "routes[].table",
		"routes[].metric", "routes[].mtu", "routes[].onlink",
	}},
	{What: "permanent neighbours", Fate: Restored, State: []string{"neighbours"}, differs: neighboursDiffer,
		Fields: []string{"neighbors[].ipAddress", "neighbors[].destination", "neighbors[].hardwareAddr"}},
	{What: "proxy neighbours", Fate: Restored, State: []string{"proxies"}, differs: proxiesDiffer},
	{What: "further unicast addresses of the link layer", Fate: Restored, State: []string{"stations"}, differs: unicastEntriesDiffer},
	{What: "static multicast addresses of the link layer", Fate: Restored, State: []string{"multicast"}, differs: multicastDiffers},
	{What: "sysctls", Fate: Restored, State: []string{"sysctls"}, differs: readBack,
		Fields: []string{"interface.forwarding", "interface.arpIgnore", "interface.arpAnnounce"}},
	{What: "queueing disciplines", Fate: Restored, State: []string{"root", "ingress"}, differs: queueingDiffers},
	{What: "features", Fate: Restored, State: []string{"features"}, Fields: []string{"ethtool.features{}"}, differs: featuresDiffer},
	{What: "private flags", Fate: Restored, State: []string{"privateFlags"}, Fields: []string{"ethtool.privateFlags{}"}, differs: flagsDiffer},
	{What: "channels", Fate: Restored, Ethtool: []string{"channels"}, differs: readBack},
	{What: "rings", Fate: Restored, Ethtool: []string{"rings"}, differs: readBack},
	{What: "coalescing", Fate: Restored, Ethtool: []string{"coalesce"}, differs: readBack},
	{What: "forward error correction", Fate: Restored, Ethtool: []string{"fec"}, differs: readBack},
	{What: "receive hash", Fate: Restored, Ethtool: []string{"hash", "fields"}, differs: readBack},
	{What: "ntuple rules", Fate: Restored, Ethtool: []string{"ntuple"}, differs: readBack},
	{What: "hardware timestamps", Fate: Restored, Ethtool: []string{"timestamps"}, differs: readBack},
	{What: "wake on LAN", Fate: Restored, Ethtool: []string{"wol"}, differs: readBack},
	{What: "link modes, speed, duplex, MDI-X", Fate: Restored, Ethtool: []string{"link", "port"}, differs: readBack},
	{What: "pause frames", Fate: Restored, Ethtool: []string{"pause"}, differs: readBack},
	{What: "energy efficient Ethernet", Fate: Restored, Ethtool: []string{"eee"}, differs: readBack},
	{What: "eBPF programs", Fate: Restored, State: []string{"programs", "key"}, Fields: []string{"interface.disableEbpfPrograms"}, differs: programsDiffer},

	// The kernel makes it again once there is a carrier, by addrgenmode and the
	// sysctls of IPv6, which are restored.
	{What: "link-local address", Fate: Recreated},
	{What: "addresses and routes of router advertisements, temporary addresses", Fate: Recreated},
	{What: "routes of addresses", Fate: Recreated},
	{What: "rules that name the interface", Fate: Recreated, State: []string{"rules"}, differs: rulesDiffer},
	{What: "learned neighbours", Fate: Recreated},
	{What: "VLAN filters", Fate: Recreated},

	{What: "classful queueing disciplines, shared blocks", Fate: Refused},
	{What: "filters that are no eBPF programs", Fate: Refused},
	{What: "XDP programs", Fate: Refused, State: []string{"xdp"}},
	{What: "routes through nexthop objects", Fate: Refused},
	{What: "membership in a bridge, bond or team", Fate: Refused},
	{What: "links on top of it", Fate: Refused},
	{What: "names that are not UTF-8", Fate: Refused},
	{What: "an IPv6 token beside `arp off`", Fate: Refused},

	{What: "rules of the pod", Fate: Elsewhere,
		Fields: []string{"rules[].priority", "rules[].source", "rules[].destination", "rules[].table"}},
	{What: "XDP and tcx programs of the pod", Fate: Elsewhere},
	{What: "device files of containers", Fate: Elsewhere, Fields: []string{"rdma.umad", "rdma.issm"}},
	{What: "links and offloads of the pod on top of it", Fate: Elsewhere},

	{What: "devlink parameters, traps and resources", Fate: Untouched},
	{What: "settings below `/sys`: RPS, XPS, rates and NAPI of queues, number of VFs", Fate: Untouched},
	{What: "MTU limits, permanent address, bus", Fate: Untouched, State: []string{"index", "permanentMAC", "kind"}},

	{What: "neighbours that are managed or without ARP", Fate: Lost},
	{What: "multicast entries of `bridge fdb`", Fate: Lost},
	{What: "netfilter chains and flowtables on the interface", Fate: Lost},
	{What: "multicast groups and bindings of processes, multicast routing", Fate: Lost},
	{What: "MPLS input and routes", Fate: Lost},
	{What: "DCB: priorities, their flow control and bandwidth", Fate: Lost},
	{What: "coalescing and NAPI of one queue by netlink, coalescing profiles, RSS contexts", Fate: Lost},
	{What: "PLCA, MAC merge, power of a module, password of wake on LAN, message level", Fate: Lost},
	{What: "VF settings, switch mode of an SR-IOV NIC", Fate: Lost},
}
