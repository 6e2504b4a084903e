// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

// Outcome is what becomes of a part of an interface's state when it leaves the host.
type Outcome string

// The outcomes. docs/restored.md is the same for people.
const (
	// Restored is put back as it was, and verified.
	Restored Outcome = "restored"
	// Recreated is kept or made again by the kernel, and only verified.
	Recreated Outcome = "recreated"
	// Refused cannot be restored: a NIC that has it is not taken.
	Refused Outcome = "refused"
	// Elsewhere is nothing of the host's: it ends with the pod.
	Elsewhere Outcome = "elsewhere"
	// Untouched stays with the host: neither a move nor a pod reaches it.
	Untouched Outcome = "untouched"
	// Lost is not restored, and the driver does not notice that it was there.
	Lost Outcome = "lost"
)

// Entry is a part of an interface's state.
type Entry struct {
	What    string
	Outcome Outcome
	// State are the fields of State that hold it, by their JSON names, and Ethtool
	// the groups of ethtool.Settings.
	State, Ethtool []string
	// Fields are the fields of a configuration that change it, as JSON paths.
	Fields []string
	// differs says what is not as it was; nil where it cannot be read.
	differs func(c *comparison) []string
}

// Entries is all of an interface's state. A field of the configuration that is in none
// of them would change the host for good; TestEveryFieldIsUndone fails then.
var Entries = []Entry{
	{What: "name", Outcome: Restored, State: []string{"name"}, Fields: []string{"interface.name"}, differs: nameDiffers},
	{What: "alternative names", Outcome: Restored, State: []string{"altNames"}, differs: altNamesDiffer},
	{What: "up or down", Outcome: Restored, State: []string{"up"}, differs: stateDiffers},
	{What: "settings", Outcome: Restored, State: []string{"settings"}, differs: settingsDiffer, Fields: []string{
		"interface.mtu", "interface.hardwareAddr",
		"interface.gsoMaxSize", "interface.groMaxSize", "interface.gsoIPv4MaxSize", "interface.groIPv4MaxSize",
	}},
	{What: "VRF", Outcome: Restored, State: []string{"vrf"}, Fields: []string{"interface.vrf.name", "interface.vrf.table"}, differs: vrfDiffers},
	{What: "addresses", Outcome: Restored, State: []string{"addresses", "prefixes"}, differs: addressesDiffer,
		Fields: []string{"interface.addresses[]", "interface.addressing", "interface.dhcp"}},
	{What: "routes", Outcome: Restored, State: []string{"routes"}, differs: routesDiffer, Fields: []string{
		"routes[].destination", "routes[].gateway", "routes[].source", "routes[].scope", "routes[].table",
		"routes[].metric", "routes[].mtu", "routes[].onlink",
	}},
	{What: "permanent neighbours", Outcome: Restored, State: []string{"neighbours"}, differs: neighboursDiffer,
		Fields: []string{"neighbors[].ipAddress", "neighbors[].destination", "neighbors[].hardwareAddr"}},
	{What: "proxy neighbours", Outcome: Restored, State: []string{"proxies"}, differs: proxiesDiffer},
	{What: "further unicast addresses of the link layer", Outcome: Restored, State: []string{"stations"}, differs: unicastEntriesDiffer},
	{What: "static multicast addresses of the link layer", Outcome: Restored, State: []string{"multicast"}, differs: multicastDiffers},
	{What: "sysctls", Outcome: Restored, State: []string{"sysctls"}, differs: readBack,
		Fields: []string{"interface.forwarding", "interface.arpIgnore", "interface.arpAnnounce"}},
	{What: "queueing disciplines", Outcome: Restored, State: []string{"root", "ingress"}, differs: queueingDiffers},
	{What: "features", Outcome: Restored, State: []string{"features"}, Fields: []string{"ethtool.features{}"}, differs: featuresDiffer},
	{What: "private flags", Outcome: Restored, State: []string{"privateFlags"}, Fields: []string{"ethtool.privateFlags{}"}, differs: flagsDiffer},
	{What: "channels", Outcome: Restored, Ethtool: []string{"channels"}, differs: readBack},
	{What: "rings", Outcome: Restored, Ethtool: []string{"rings"}, differs: readBack},
	{What: "coalescing", Outcome: Restored, Ethtool: []string{"coalesce"}, differs: readBack},
	{What: "forward error correction", Outcome: Restored, Ethtool: []string{"fec"}, differs: readBack},
	{What: "receive hash", Outcome: Restored, Ethtool: []string{"hash", "fields"}, differs: readBack},
	{What: "ntuple rules", Outcome: Restored, Ethtool: []string{"ntuple"}, differs: readBack},
	{What: "hardware timestamps", Outcome: Restored, Ethtool: []string{"timestamps"}, differs: readBack},
	{What: "wake on LAN", Outcome: Restored, Ethtool: []string{"wol"}, differs: readBack},
	{What: "link modes, speed, duplex, MDI-X", Outcome: Restored, Ethtool: []string{"link", "port"}, differs: readBack},
	{What: "pause frames", Outcome: Restored, Ethtool: []string{"pause"}, differs: readBack},
	{What: "energy efficient Ethernet", Outcome: Restored, Ethtool: []string{"eee"}, differs: readBack},
	{What: "settings of a virtual function", Outcome: Restored, State: []string{"vf"}, differs: readBack, Fields: []string{
		"interface.vf.vlan", "interface.vf.vlanQoS", "interface.vf.maxTxRate", "interface.vf.minTxRate",
		"interface.vf.spoofCheck", "interface.vf.trust",
	}},
	// The driver of NICs waits for it, and makes it again (netdev, awaitRDMA, remakeRDMA).
	{What: "RDMA device", Outcome: Restored, differs: readBack},
	{What: "eBPF programs", Outcome: Restored, State: []string{"programs", "key"}, Fields: []string{"interface.disableEbpfPrograms"}, differs: programsDiffer},

	// The kernel makes it again once there is a carrier, by addrgenmode and the
	// sysctls of IPv6, which are restored.
	{What: "link-local address", Outcome: Recreated},
	{What: "addresses and routes of router advertisements, temporary addresses", Outcome: Recreated},
	{What: "routes of addresses", Outcome: Recreated},
	{What: "rules that name the interface", Outcome: Recreated, State: []string{"rules"}, differs: rulesDiffer},
	{What: "learned neighbours", Outcome: Recreated},
	{What: "VLAN filters", Outcome: Recreated},

	{What: "classful queueing disciplines, shared blocks", Outcome: Refused},
	{What: "filters that are no eBPF programs", Outcome: Refused},
	{What: "XDP programs", Outcome: Refused, State: []string{"xdp"}},
	{What: "routes through nexthop objects", Outcome: Refused},
	{What: "membership in a bridge, bond or team", Outcome: Refused},
	{What: "links on top of it", Outcome: Refused},
	{What: "names that are not UTF-8", Outcome: Refused},
	{What: "an IPv6 token beside `arp off`", Outcome: Refused},

	{What: "rules of the pod", Outcome: Elsewhere,
		Fields: []string{"rules[].priority", "rules[].source", "rules[].destination", "rules[].table"}},
	{What: "XDP and tcx programs of the pod", Outcome: Elsewhere},
	{What: "device files of containers", Outcome: Elsewhere, Fields: []string{"rdma.umad", "rdma.issm"}},
	{What: "links and offloads of the pod on top of it", Outcome: Elsewhere},

	{What: "devlink parameters, traps and resources", Outcome: Untouched},
	{What: "settings below `/sys`: RPS, XPS, rates and NAPI of queues, number of VFs", Outcome: Untouched},
	{What: "MTU limits, permanent address, bus", Outcome: Untouched, State: []string{"index", "permanentMAC", "kind"}},

	{What: "neighbours that are managed or without ARP", Outcome: Lost},
	{What: "multicast entries of `bridge fdb`", Outcome: Lost},
	{What: "netfilter chains and flowtables on the interface", Outcome: Lost},
	{What: "multicast groups and bindings of processes, multicast routing", Outcome: Lost},
	{What: "MPLS input and routes", Outcome: Lost},
	{What: "DCB: priorities, their flow control and bandwidth", Outcome: Lost},
	{What: "coalescing and NAPI of one queue by netlink, coalescing profiles, RSS contexts", Outcome: Lost},
	{What: "PLCA, MAC merge, power of a module, password of wake on LAN, message level", Outcome: Lost},
	{What: "default RoCE mode and type of service of an RDMA device", Outcome: Lost},
	{What: "settings of a NIC's own virtual functions, switch mode of an SR-IOV NIC", Outcome: Lost},
}
