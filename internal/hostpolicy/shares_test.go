// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

var macvlan = model.Share{Type: model.ShareMacvlan, Slots: 8, Bandwidth: 100e9}

// sharing is a kernel of plain values with the offers of an agent.
type sharing struct {
	*fake
	shares *Shares
}

func (s sharing) Read(l Link, field string) (string, error) {
	if field == fieldShare {
		return s.shares.read(l.Key), nil
	}
	return s.fake.Read(l, field)
}

func (s sharing) Write(l Link, field, value string) error {
	if field == fieldShare {
		return s.shares.write(l.Key, value)
	}
	return s.fake.Write(l, field, value)
}

// node is an agent's state directory.
type node struct {
	dir    string
	shares *Shares
}

// start is a new process on it.
func (n *node) start(t *testing.T) {
	t.Helper()
	var err error
	if n.shares, err = OpenShares(filepath.Join(n.dir, "shares.json")); err != nil {
		t.Fatal(err)
	}
}

// follow is one look at policies, which says whether other NICs are offered than before.
func (n *node) follow(t *testing.T, m *model.Machine, policies ...Policy) (results []Result, changed bool) {
	t.Helper()
	r := Reconciler{File: filepath.Join(n.dir, "record.json"), BootID: "boot", Kernel: sharing{&fake{values: map[string]string{}}, n.shares}}
	n.shares.Begin()
	results, err := r.Run(policies, m)
	if err != nil {
		t.Fatal(err)
	}
	if changed, err = n.shares.End(); err != nil {
		t.Fatal(err)
	}
	return results, changed
}

func (n *node) offers(m *model.Machine, held ...model.HeldShare) map[string]model.Share {
	offers := map[string]model.Share{}
	for _, nic := range n.shares.Describe(m, held, false).NICs {
		if nic.Share != nil {
			offers[nic.Interface.Name] = *nic.Share
		}
	}
	return offers
}

func offering(name, address string, s model.Share) Policy {
	return Policy{Name: name, Links: []LinkPolicy{{PCIAddress: address, Share: &s}}}
}

func TestSharesFollowPolicies(t *testing.T) {
	m := machine(t, 1) // the second link is the node's
	first, second := m.NICs[0].Interface.Name, m.NICs[1].Interface.Name
	n := &node{dir: t.TempDir()}
	n.start(t)
	rails, uplink := offering("rails", "0000:01:00.0", macvlan), offering("uplink", "0000:02:00.0", macvlan)
	for _, step := range []struct {
		what     string
		restart  bool
		policies []Policy
		want     map[string]model.Share
		changed  bool
		states   []State
	}{
		{what: "one", policies: []Policy{rails}, want: map[string]model.Share{first: macvlan}, changed: true, states: []State{Applied}},
		{what: "the same", policies: []Policy{rails}, want: map[string]model.Share{first: macvlan}, states: []State{Applied}},
		{what: "and the node's own link", policies: []Policy{rails, uplink}, want: map[string]model.Share{first: macvlan, second: macvlan}, changed: true, states: []State{Applied, Applied}},
		{what: "the same after a restart", restart: true, policies: []Policy{rails, uplink}, want: map[string]model.Share{first: macvlan, second: macvlan}, states: []State{Applied, Applied}},
		{what: "one has gone", policies: []Policy{rails}, want: map[string]model.Share{first: macvlan}, changed: true, states: []State{Applied}},
		{
			what: "two that differ", policies: []Policy{offering("other", "0000:03:00.0", macvlan), offering("else", "0000:03:00.0", model.Share{Type: model.ShareIPvlan, Slots: 8}), rails},
			want: map[string]model.Share{first: macvlan}, states: []State{Refused, Refused, Applied},
		},
		{what: "all have gone while no agent ran", restart: true, want: map[string]model.Share{}, changed: true},
	} {
		if step.restart {
			n.start(t)
			if got, before := n.offers(m), n.shares.Any(); len(got) == 0 != !before {
				t.Errorf("%s: offers %v before policies are known, want those of before", step.what, got)
			}
		}
		results, changed := n.follow(t, m, step.policies...)
		var states []State
		for _, r := range results {
			states = append(states, r.State)
		}
		if diff := cmp.Diff(step.want, n.offers(m)); diff != "" || changed != step.changed || !cmp.Equal(states, step.states) {
			t.Errorf("%s: changed %t, want %t; states %v, want %v; offers (-want +got):\n%s", step.what, changed, step.changed, states, step.states, diff)
		}
	}
}

// An agent that starts without an API server offers what the one before it did.
func TestSharesOutliveTheAgent(t *testing.T) {
	m := machine(t)
	n := &node{dir: t.TempDir()}
	n.start(t)
	n.follow(t, m, offering("rails", "0000:01:00.0", macvlan))
	want := n.offers(m)
	n.start(t)
	if diff := cmp.Diff(want, n.offers(m)); diff != "" || len(want) != 1 {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	file := filepath.Join(n.dir, "shares.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenShares(file); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// What claims have shares of stays as it was offered to them, and takes no more where it is
// not offered any more.
func TestHeldSharesStay(t *testing.T) {
	m := machine(t)
	held := m.NICs[0]
	held.Share = &macvlan
	taken := []model.HeldShare{{NIC: held, Slots: 1}, {NIC: held, Slots: 2}}
	name := held.Interface.Name
	more := macvlan
	more.Slots = 16
	left := macvlan
	left.Slots = 3
	for what, tt := range map[string]struct {
		policies []Policy
		want     model.Share
	}{
		"as offered":        {[]Policy{offering("rails", "0000:01:00.0", macvlan)}, macvlan},
		"with more slots":   {[]Policy{offering("rails", "0000:01:00.0", more)}, more},
		"not any more":      {nil, left},
		"as something else": {[]Policy{offering("rails", "0000:01:00.0", model.Share{Type: model.ShareIPvlan, Slots: 16})}, left},
	} {
		n := &node{dir: t.TempDir()}
		n.start(t)
		n.follow(t, m, tt.policies...)
		if diff := cmp.Diff(map[string]model.Share{name: tt.want}, n.offers(m, taken...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// A NIC that a claim has whole by its twin stays offered both ways, whatever policies say by
// now, and is offered anew when the claim has ended.
func TestHeldTwinStays(t *testing.T) {
	m := machine(t)
	both := macvlan
	both.AlsoExclusive = true
	held := m.NICs[0]
	held.Share = &both
	name := held.Interface.Name
	whole := model.HeldShare{NIC: held}
	one := both
	one.Slots = 1 // which nobody gets: the NIC's counter is used up
	for what, tt := range map[string]struct {
		policies []Policy
		want     model.Share
	}{
		"as offered":        {[]Policy{offering("rails", "0000:01:00.0", both)}, both},
		"in shares alone":   {[]Policy{offering("rails", "0000:01:00.0", macvlan)}, both},
		"not any more":      {nil, one},
		"as something else": {[]Policy{offering("rails", "0000:01:00.0", model.Share{Type: model.ShareIPvlan, Slots: 16})}, one},
	} {
		n := &node{dir: t.TempDir()}
		n.start(t)
		n.follow(t, m, tt.policies...)
		if diff := cmp.Diff(map[string]model.Share{name: tt.want}, n.offers(m, whole)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	n := &node{dir: t.TempDir()}
	n.start(t)
	n.follow(t, m, offering("rails", "0000:01:00.0", macvlan))
	n.offers(m, whole)
	if diff := cmp.Diff(map[string]model.Share{name: macvlan}, n.offers(m)); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

func TestSharedNICsOfExclusiveRDMA(t *testing.T) {
	m := machine(t)
	m.NICs[0].RDMA = &model.RDMADevice{Name: "mlx5_0"}
	m.NICs[1].RDMA = &model.RDMADevice{Name: "mlx5_1"}
	n := &node{dir: t.TempDir()}
	n.start(t)
	n.follow(t, m, offering("rails", "0000:01:00.0", macvlan))
	for exclusive, want := range map[bool]bool{false: true, true: false} {
		got := n.shares.Describe(m, nil, exclusive)
		if (got.NICs[0].InShares().RDMA != nil) != want || got.NICs[1].InShares().RDMA == nil {
			t.Errorf("exclusive %t: shares have RDMA devices %v and %v, want the shared NIC's %t, and the other's",
				exclusive, got.NICs[0].InShares().RDMA, got.NICs[1].InShares().RDMA, want)
		}
	}
	if m.NICs[0].Share != nil || m.NICs[0].RDMA == nil {
		t.Error("the scan has changed")
	}
}

// While it is not known what pods share, no NIC is offered whole but those that claims hold
// whole, and those that policies share stay offered so.
func TestDoubtfulShares(t *testing.T) {
	m := machine(t)
	n := &node{dir: t.TempDir()}
	n.start(t)
	n.follow(t, m, offering("rails", "0000:01:00.0", macvlan))
	doubted := n.shares.Doubt(n.shares.Describe(m, nil, false), m.NICs[1:2], errors.New("the disk is away"))
	for i, want := range []bool{true, true, false} {
		nic := &doubted.NICs[i]
		if nic.Offered() != want || !want && *nic.Withheld != "may be shared by pods, and that is not known: the disk is away" {
			t.Errorf("%s: offered %t, want %t; %v", nic, nic.Offered(), want, nic.Withheld)
		}
	}
	if m.NICs[2].Withheld != nil {
		t.Error("the scan has changed")
	}
}

// Links are found by what they are published with, whether they are shared or not.
func TestLinksFoundByCEL(t *testing.T) {
	m := machine(t, 1)
	m.NICs[0].RDMA, m.NICs[1].RDMA = nil, nil
	m.NICs[2].Share = &macvlan
	for expression, want := range map[string]string{
		`device.attributes["dra.net"].rdma`:                                "eth2",
		`device.driver == "dra.net" && !device.attributes["dra.net"].rdma`: "eth0 eth1",
		`device.attributes["dra.net"].ifName.matches("^eth[01]$")`:         "eth0 eth1",
		`"shared" in device.attributes["dra.net"]`:                         "",
		`device.attributes["dra.net"].alias == "storage"`:                  "error: link eth0: selector.cel: ",
	} {
		p := Policy{Name: "p", Links: []LinkPolicy{{CEL: expression, Share: &macvlan}}}
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
		found, by, err := p.Links[0].find(m)
		var names []string
		for _, l := range found {
			names = append(names, l.Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want && (!strings.HasPrefix(want, "error") || !strings.HasPrefix(got, want)) || by != "selector.cel "+expression {
			t.Errorf("%s finds %q, want %q", by, got, want)
		}
		n := &node{dir: t.TempDir()}
		n.start(t)
		results, _ := n.follow(t, m, p)
		for _, r := range results {
			if refused := r.State == Refused; refused != (err != nil) || refused && r.Reason != err.Error() {
				t.Errorf("%s: %+v, want it refused if and only if it fails: %v", expression, r, err)
			}
		}
	}
	for expression, want := range map[string]string{
		`device.attributes["dra.net"].`: "selector.cel: ",
		`device.driver`:                 "must evaluate to bool",
		`nic.rdma`:                      "undeclared reference to 'nic'",
	} {
		err := Policy{Name: "p", Links: []LinkPolicy{{CEL: expression, Share: &macvlan}}}.Validate()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `policy "p": links[0]: selector.cel: `) {
			t.Errorf("%s: %v, want %s", expression, err, want)
		}
	}
}

func TestShareIsValid(t *testing.T) {
	for _, tt := range []struct {
		share model.Share
		want  string
	}{
		{macvlan, ""},
		{model.Share{Type: "ipvlan", Mode: "l3s", Flag: "private", Slots: MaxSlots}, ""},
		{model.Share{Type: "vlan", FirstVLAN: 1, LastVLAN: 4094, Slots: 1}, ""},
		{model.Share{Type: "macvtap", Slots: 1}, `share.type: "macvtap": want macvlan, ipvlan or vlan`},
		{model.Share{Type: "macvlan", Mode: "passthru", Slots: 1}, `share.mode: "passthru": macvlan has [bridge private vepa]`},
		{model.Share{Type: "macvlan", Flag: "bridge", Slots: 1}, `share.flag: "bridge": want one of`},
		{model.Share{Type: "vlan", Slots: 1}, "share.vlanIDs: 0-0: want tags of 1-4094 with type vlan"},
		{model.Share{Type: "vlan", FirstVLAN: 9, LastVLAN: 5, Slots: 1}, "share.vlanIDs: 9-5"},
		{model.Share{Type: "ipvlan", FirstVLAN: 5, LastVLAN: 9, Slots: 1}, "share.vlanIDs: 5-9: want tags of 1-4094 with type vlan, and none with another"},
		{model.Share{Type: "macvlan", Slots: 1, Pool: "rdma-net", AlsoExclusive: true}, ""},
		{model.Share{Type: "macvlan", Slots: 1, Pool: "RDMA net"}, `share.ipam.pool: "RDMA net": want the name of a NetworkAddressPool`},
		{model.Share{Type: "macvlan"}, "share.slots: 0: want 1-1024"},
		{model.Share{Type: "macvlan", Slots: MaxSlots + 1}, "share.slots: 1025"},
	} {
		got := ""
		if err := offering("p", "0000:01:00.0", tt.share).Validate(); err != nil {
			got = err.Error()
		}
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.share, got, tt.want)
		}
	}
}

// A port of a bridge has no packets of its own to share.
func TestPortsAreNotShared(t *testing.T) {
	host := hosttest.NewNamespace(t)
	host.Run(t, `
		ip link add nic0 type veth peer name far0
		ip link add br0 type bridge
		ip link set nic0 master br0`)
	conn, err := rtnl.Dial(host.Fd())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	n := &node{dir: t.TempDir()}
	n.start(t)
	nic, err := conn.LinkByName("nic0")
	if err != nil || nic == nil {
		t.Fatal(nic, err)
	}
	kernel := Live{Conn: conn, Shares: n.shares}
	link := Link{Key: "nic0", Name: "nic0", Index: nic.Index}
	if err := kernel.Write(link, fieldShare, shareText(&macvlan)); err == nil || !strings.Contains(err.Error(), "link nic0 is a port of a bridge, which has its packets: want that shared") {
		t.Errorf("a port: %v", err)
	}
	host.Run(t, "ip link set nic0 nomaster")
	if err := kernel.Write(link, fieldShare, shareText(&macvlan)); err != nil || !n.shares.Any() {
		t.Errorf("no port: %v", err)
	}
}
