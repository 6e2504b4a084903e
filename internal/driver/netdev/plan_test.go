// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

func ptr[T any](v T) *T { return &v }

func mustPCI(t *testing.T, s string) model.PCIAddress {
	t.Helper()
	a, err := model.ParsePCIAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// a3 is a machine with a fabric NIC as on a3-ultragpu-8g, one beside it with a
// virtual function, the node's own NIC, and an RDMA device without interface.
func a3(t *testing.T) *model.Machine {
	t.Helper()
	parts := model.Machine{Roots: []model.PCIRoot{{Name: "pci0000:8c", Published: true}}}
	function := func(address string, pf *model.PCIAddress) *model.PCIAddress {
		a := mustPCI(t, address)
		parts.Functions = append(parts.Functions, model.PCIFunction{
			Address: a, Root: "pci0000:8c", Class: 0x020000, PhysicalFunction: pf,
		})
		return &a
	}
	nic := func(pci *model.PCIAddress, name, rdma string) model.NIC {
		n := model.NIC{PCI: pci}
		if name != "" {
			n.Interface = &model.Interface{Name: name, Index: 4, MTU: ptr(8896),
				MAC: ptr("02:00:00:00:00:" + pci.String()[5:7]), PermanentMAC: ptr("02:00:00:00:00:" + pci.String()[5:7])}
		}
		if rdma != "" {
			n.RDMA = &model.RDMADevice{Name: rdma, LinkLayer: ptr("Ethernet"),
				CharDevices: []string{"/dev/infiniband/issm0", "/dev/infiniband/rdma_cm", "/dev/infiniband/umad0", "/dev/infiniband/uverbs0"}}
		}
		return n
	}
	fabric := nic(function("0000:91:00.0", nil), "gpu0rdma0", "mlx5_0")
	uplink := nic(function("0000:92:00.0", nil), "enp1s0", "")
	uplink.Withheld = ptr("carries the default route")
	physical := function("0000:93:00.0", nil)
	parts.NICs = []model.NIC{
		fabric, uplink,
		nic(physical, "pf0", ""),
		nic(function("0000:94:00.0", physical), "vf0", ""),
		nic(function("0000:95:00.0", nil), "", "mlx5_5"),
		nic(function("0000:96:00.0", nil), "eth0", ""),
		nic(function("0000:97:00.0", nil), "bad name", ""),
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// seenOf is a NIC on the host, as its reader would find it.
func seenOf(n model.NIC) nicFacts {
	if n.Interface.Name == "vf0" {
		return nicFacts{err: errors.New("interface vf0 is a port of br0, which would lose it")}
	}
	link := rtnl.Saved{Text: "10.33.0.1/32 table 254 proto 4", Message: []byte{2, 32, 0, 0, 254, 4, 253, 1, 0, 0, 0, 0, 8, 0, 15, 0, 254, 0, 0, 0}}
	prefix := netip.MustParsePrefix("10.33.0.2/32")
	return nicFacts{seen: &hoststate.HostNIC{
		State: hoststate.State{
			Name: n.Interface.Name, Index: 4, PermanentMAC: n.Interface.PermanentMAC, Up: true,
			Settings: rtnl.Settings{MAC: n.Interface.MAC, MTU: ptr(8896), Alias: ptr(""), Group: ptr(uint32(0)),
				GSOMax: ptr(uint32(65536)), GROMax: ptr(uint32(65536))},
			Addresses: []rtnl.Saved{{Text: "10.33.0.2/32", Message: []byte{2, 32}}},
			Routes: []hoststate.Route{
				{Saved: link},
				{Saved: rtnl.Saved{Text: "10.34.0.0/16 by 2 paths table 254 proto 4", Message: []byte{2, 16, 0}},
					Others: []hoststate.OtherLink{{Index: 7, Name: "gpu1rdma0"}}},
			},
			Prefixes: []netip.Prefix{prefix},
			Device: hoststate.Device{
				Features:     map[string]bool{"tx-tcp-segmentation": true, "rx-gro-hw": false},
				PrivateFlags: map[string]bool{"rx_striding_rq": true, "tx_port_ts": false},
			},
		},
		Addresses: []netip.Prefix{prefix},
		Routes:    []rtnl.Route{{Saved: link, Destination: netip.MustParsePrefix("10.33.0.1/32"), Table: 254}},
		Features: []ethtool.Feature{
			{Name: "rx-gro-hw"}, {Name: "tx-checksum-ipv4", Active: true, Requested: true, Fixed: true},
			{Name: "tx-tcp-segmentation", Active: true, Requested: true},
		},
	}}
}

func planIn(t *testing.T, c driver.Claim, held ...driver.Record) (driver.Record, error) {
	t.Helper()
	m := a3(t)
	known := facts{nics: map[string]nicFacts{}}
	for _, a := range c.Devices {
		if nic := slicecodec.FindNIC(m, a.Device); nic != nil && nic.Interface != nil {
			known.nics[a.Device] = seenOf(*nic)
		}
	}
	return (&boundPlanner{bootID: "boot", facts: known}).Plan(c, m, held)
}

func TestPlanGolden(t *testing.T) {
	admin := claim("", "pci-0000-91-00-0")
	admin.Devices[0].AdminAccess = true
	layered := claim(`{"interface": {"mtu": 1500, "addresses": ["10.0.0.2/24"]}}`, "pci-0000-93-00-0")
	layered.Devices[0].Configs = append([]driver.Config{
		{Source: "class", Raw: []byte(`{"interface": {"name": "net1", "mtu": 9000}}`)},
	}, layered.Devices[0].Configs...)
	for name, c := range map[string]driver.Claim{
		"aligned":   claim("", "pci-0000-91-00-0"),
		"tuned":     claim(`{"interface": {"name": "dranet0", "mtu": 8896, "gsoMaxSize": 65536, "groMaxSize": 65536}}`, "pci-0000-91-00-0"),
		"layers":    layered,
		"bare":      claim(`{"interface": {"addressing": "unnumbered"}}`, "pci-0000-93-00-0"),
		"rdma-only": claim("", "pci-0000-95-00-0"),
		"admin":     admin,
		"two":       claim("", "pci-0000-93-00-0", "pci-0000-91-00-0"),
	} {
		t.Run(name, func(t *testing.T) {
			r, err := planIn(t, c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(r, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Assert(t, filepath.Join("testdata", "plan", name+".json"), string(got)+"\n")
		})
	}
}

// An RDMA device without an interface goes into the pod itself where the node shows
// each in one namespace only, else by its device files alone.
func TestPlanOfRDMAAlone(t *testing.T) {
	for exclusive, want := range map[bool]*RDMA{false: nil, true: {Name: "mlx5_5", Exclusive: true}} {
		c := claim("", "pci-0000-95-00-0")
		r, err := (&boundPlanner{facts: facts{exclusive: exclusive}}).Plan(c, a3(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		var plan Plan
		if err := json.Unmarshal(r.Devices[0].Plan, &plan); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, plan.RDMA); diff != "" || plan.Host != nil || plan.Pod != nil {
			t.Errorf("exclusive %t: host %v, pod %v, RDMA device (-want +got):\n%s", exclusive, plan.Host, plan.Pod, diff)
		}
		if got := (&Driver{}).Moves(r); got != exclusive {
			t.Errorf("exclusive %t: something moves %t", exclusive, got)
		}
		if byCDI := len(r.Devices[0].Edits.DeviceNodes) > 0; !r.Devices[0].RDMA || byCDI == exclusive {
			t.Errorf("exclusive %t: %+v, want an RDMA device, and its files by CDI where it does not move", exclusive, r.Devices[0])
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	share := claim("", "pci-0000-91-00-0")
	share.Devices[0].ShareID = ptr(types.UID("s"))
	for _, c := range []struct {
		claim driver.Claim
		want  string
	}{
		{claim("", "pci-0000-00-00-0"), "device pci-0000-00-00-0: this node has no such NIC"},
		{claim("", "pci-0000-92-00-0"), "device pci-0000-92-00-0: 0000:92:00.0 (enp1s0) is not offered: it carries the default route"},
		{claim("", "pci-0000-91-00-0", "pci-0000-91-00-0"), "the claim lists it twice"},
		{claim("", "pci-0000-94-00-0"), "interface vf0 is a port of br0, which would lose it"},
		{share, "share s: 0000:91:00.0 (gpu0rdma0) is not shared any more: want a HostPolicy with links[].share for it"},
		{claim(`{"interface": {"type": "macvlan"}}`, "pci-0000-91-00-0"), `interface.type: "macvlan": is of NICs that are shared, and the claim was allocated a whole one: want class shared.dra.net`},
		{claim(`{"interface": {"mtu": 8897}}`, "pci-0000-94-00-0"), "interface.mtu: 8897: want at most 8896, the MTU of its physical function 0000:93:00.0 (pf0)"},
		{claim("", "pci-0000-96-00-0"), `interface.name: "eth0" is in the pod already, from the cluster's network`},
		{claim("", "pci-0000-97-00-0"), `the host's interface name "bad name": want 1-15 letters, digits, '-', '_' and '.', not only dots: set interface.name`},
		{claim(`{"interface": {"name": "net0"}}`, "pci-0000-91-00-0", "pci-0000-93-00-0"),
			`device pci-0000-93-00-0: interface.name: "net0" is in the pod already, for device pci-0000-91-00-0: give each its own name`},
		{claim(`{"interface": {"gsoIPv4MaxSize": 65536}}`, "pci-0000-91-00-0"), "interface.gsoIPv4MaxSize: 65536: this node's kernel has no such setting"},
		{claim(`{"interface": {"mtu": 9000}}`, "pci-0000-95-00-0"), "interface.mtu: Forbidden: the device has no network interface: want nothing but rdma"},
		{claim(`{"routes": [{"destination": "10.0.0.0/8", "gateway": "10.0.0.1"}], "interface": {"addresses": ["10.0.0.2/24"]}}`, "pci-0000-95-00-0"),
			"routes[0].gateway: Forbidden: the device has no network interface"},
		{claim(`{"ethtool": {"privateFlags": {"legacy-rx": true, "a": false}}}`, "pci-0000-91-00-0"),
			`ethtool.privateFlags: "a", "legacy-rx": interface gpu0rdma0 has rx_striding_rq, tx_port_ts`},
		{claim(`{"interface": {"mtu": true}}`, "pci-0000-91-00-0"), "parameters of the claim: interface.mtu: Invalid value: true: is a boolean, want a whole number"},
		{claim(`{"interface": {"name": "a/b"}}`, "pci-0000-91-00-0"), `parameters: interface.name: Invalid value: "a/b"`},
	} {
		_, err := planIn(t, c.claim)
		if err == nil || !strings.HasPrefix(err.Error(), "claim default/claim, request nic, device ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v\nwant  %s", err, c.want)
		}
	}
}

// What a claim says that is the case anyway is no mistake.
func TestPlanTakesWhatIsSoAnyway(t *testing.T) {
	for _, parameters := range []string{
		`{"interface": {"type": "passthrough", "addressing": "static", "dhcp": false, "disableEbpfPrograms": false}}`,
		`{"routes": [], "rules": [], "neighbors": [], "ethtool": {"features": {}, "privateFlags": {}}}`,
	} {
		if _, err := planIn(t, claim(parameters, "pci-0000-91-00-0")); err != nil {
			t.Errorf("%s asks for what is the case anyway: %v", parameters, err)
		}
	}
}

func TestPlanBesideOthers(t *testing.T) {
	other := claim("", "pci-0000-91-00-0")
	other.UID, other.Name = "other", "other"
	holder, err := planIn(t, other)
	if err != nil {
		t.Fatal(err)
	}
	mine := claim("", "pci-0000-91-00-0")
	if _, err := planIn(t, mine, holder); err == nil || !strings.HasSuffix(err.Error(), ": claim default/other holds it") || !driver.OnlyHeld(err) {
		t.Errorf("taking a held device: %v; want a refusal that passes", err)
	}
	mine.Devices[0].AdminAccess = true
	if _, err := planIn(t, mine, holder); err != nil {
		t.Errorf("looking at a held device: %v", err)
	}
	again := holder
	if _, err := planIn(t, other, again); err != nil {
		t.Errorf("a claim's own record is no obstacle: %v", err)
	}
	sameName := claim(`{"interface": {"name": "gpu0rdma0"}}`, "pci-0000-93-00-0")
	if _, err := planIn(t, sameName, holder); err == nil || !strings.Contains(err.Error(), `"gpu0rdma0" is in the pod already, from claim default/other`) {
		t.Errorf("one name twice in a pod: %v", err)
	}
	routes := claim(`{"routes": [{"destination": "10.1.0.0/16", "scope": 253}]}`, "pci-0000-91-00-0", "pci-0000-93-00-0")
	if _, err := planIn(t, routes); err == nil || !strings.Contains(err.Error(),
		"device pci-0000-93-00-0: routes: 10.1.0.0/16 table 254 is in the pod already, for device pci-0000-91-00-0") {
		t.Errorf("one route by two interfaces: %v", err)
	}
	sameName.Pods[0].UID = "another"
	if _, err := planIn(t, sameName, holder); err != nil {
		t.Errorf("one name in two pods: %v", err)
	}
}

func TestHeldNICs(t *testing.T) {
	c := claim("", "pci-0000-91-00-0", "pci-0000-93-00-0")
	c.Devices[1].AdminAccess = true
	r, err := planIn(t, c)
	if err != nil {
		t.Fatal(err)
	}
	held, err := HeldNICs(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]model.NIC{a3(t).NICs[0]}, held); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
}

// An IPoIB interface that stays on the host would go with its RDMA device where only
// one network namespace sees that.
func TestPlanRefusesToLoseIPoIB(t *testing.T) {
	m := a3(t)
	nic := slicecodec.FindNIC(m, "pci-0000-95-00-0")
	for _, tt := range []struct {
		exclusive bool
		host      *string
		want      string
	}{
		{false, nil, ""},
		{false, ptr("ib0"), ""},
		{true, nil, ""},
		{true, ptr("ib0"), "RDMA device mlx5_5: the host would lose interface ib0"},
	} {
		nic.RDMA.HostInterface = tt.host
		known := facts{nics: map[string]nicFacts{}, exclusive: tt.exclusive}
		_, err := (&boundPlanner{bootID: "boot", facts: known}).Plan(claim("", "pci-0000-95-00-0"), m, nil)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("exclusive %t, on the host %v: error %v, want %q", tt.exclusive, tt.host, err, tt.want)
		}
	}
}
