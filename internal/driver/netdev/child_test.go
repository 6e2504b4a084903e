// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// shareOf is a claim of one share of a NIC, by a pod of its own.
func shareOf(name, parameters, device string) driver.Claim {
	c := claim(parameters, device)
	c.UID, c.Name = types.UID("uid-"+name), name
	c.Pods = []driver.PodRef{{UID: types.UID("pod-" + name), Name: name}}
	c.Devices[0].ShareID = ptr(types.UID("share-" + name))
	return c
}

// planShare plans a claim on the lab's host, whose nic0 is offered so.
func (l *lab) planShare(t testing.TB, offer model.Share, c driver.Claim, held ...driver.Record) (driver.Record, error) {
	t.Helper()
	m := l.machine(t)
	slicecodec.FindNIC(m, "nic0").Share = &offer
	return l.driver.Plan(c, m, held)
}

func (l *lab) mustPlanShare(t testing.TB, offer model.Share, c driver.Claim, held ...driver.Record) driver.Record {
	t.Helper()
	r, err := l.planShare(t, offer, c, held...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sharedLab is a lab whose nic0 is up, as an administrator has a NIC to share.
func sharedLab(t *testing.T) *lab {
	t.Helper()
	l := newLab(t)
	l.host.Run(t, busy)
	return l
}

// Two pods with a link each on one NIC, which reach each other by it. The host has nothing
// of them at any time.
func TestChildren(t *testing.T) {
	for _, offer := range []model.Share{
		{Type: "macvlan", Slots: 4},
		{Type: "ipvlan", Slots: 4},
		{Type: "ipvlan", Mode: "l3", Slots: 4},
	} {
		t.Run(offer.Type+offer.Mode, func(t *testing.T) {
			hosttest.NeedLink(t, offer.Type)
			l := sharedLab(t)
			before := look(t, l.host)
			pods := map[string]*hosttest.Namespace{}
			var held []driver.Record
			for i, name := range []string{"a", "b"} {
				pods[name] = hosttest.NewNamespace(t)
				pods[name].Run(t, quiet)
				parameters := fmt.Sprintf(`{"interface": {"name": "net1", "mtu": 1300, "addresses": ["10.56.217.%d/24"]}}`, 171+i)
				r := l.mustPlanShare(t, offer, shareOf(name, parameters, "nic0"), held...)
				var mac string
				for range 2 { // the second finds it done
					s := l.attach(t, r, pods[name])
					want := []driver.DeviceStatus{{Device: "nic0", InterfaceName: "net1", HardwareAddress: s[0].HardwareAddress, IPs: []string{fmt.Sprintf("10.56.217.%d/24", 171+i)}}}
					if diff := cmp.Diff(want, s); diff != "" {
						t.Errorf("status (-want +got):\n%s", diff)
					}
					if mac != "" && mac != s[0].HardwareAddress {
						t.Errorf("hardware address %s, then %s", mac, s[0].HardwareAddress)
					}
					mac = s[0].HardwareAddress
				}
				if link := l.childIn(t, pods[name], r); link == nil || !link.Up || *link.MTU != 1300 || *link.Kind != offer.Type {
					t.Errorf("in the pod: %+v", link)
				}
				held = append(held, r)
			}
			reach(t, pods["a"], pods["b"], "10.56.217.172")
			reach(t, pods["b"], pods["a"], "10.56.217.171")
			if got := withoutFilters(lookOnce(t, l.host)); got != withoutFilters(before) {
				t.Errorf("the host with both (-want +got):\n%s", cmp.Diff(withoutFilters(before), got))
			}

			l.driver = l.newDriver(t) // as after a restart
			for range 2 {
				if err := l.driver.Detach(t.Context(), held[0], pods["a"].Path()); err != nil {
					t.Fatal(err)
				}
				if link := l.childIn(t, pods["a"], held[0]); link != nil {
					t.Errorf("still in the pod: %+v", link)
				}
			}
			path := pods["b"].Path()
			pods["b"].Close() // the kernel ends the link with it
			began := time.Now()
			for _, p := range []string{path, ""} {
				if err := l.driver.Detach(t.Context(), held[1], p); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took > returnTime {
				t.Errorf("ending a claim whose namespace is gone took %v: nothing comes back", took)
			}
			for _, r := range held {
				if err := l.driver.Unstage(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			expect(t, "the host without them", before, l.host)
		})
	}
}

// A vlan's packets carry its tag.
func TestVLANChild(t *testing.T) {
	hosttest.NeedLink(t, "vlan")
	l := sharedLab(t)
	pod := hosttest.NewNamespace(t)
	pod.Run(t, quiet)
	offer := model.Share{Type: "vlan", FirstVLAN: 100, LastVLAN: 110, Slots: 8}
	parameters := `{"interface": {"name": "storage", "type": "vlan", "vlanID": 105, "addresses": ["10.56.217.171/24"]}}`
	r := l.mustPlanShare(t, offer, shareOf("a", parameters, "nic0"))
	l.attach(t, r, pod)
	l.fabric.Run(t, `
		ip link add link port0 name tagged type vlan id 105
		ip address add 10.56.217.1/24 dev tagged
		ip link set tagged up`)
	reach(t, pod, l.fabric, "10.56.217.1")
	_, err := l.planShare(t, offer, shareOf("b", parameters, "nic0"), r)
	if err == nil || !strings.Contains(err.Error(), "interface.vlanID: 105: claim default/a has it on this NIC") || !driver.OnlyHeld(err) {
		t.Errorf("one tag twice: %v; want a refusal that passes", err)
	}
	other := l.mustPlanShare(t, offer, shareOf("c", `{"interface": {"name": "net1", "type": "vlan", "vlanID": 106}}`, "nic0"), r)
	l.host.Run(t, "ip link add link nic0 name mine type vlan id 106")
	second := hosttest.NewNamespace(t)
	if _, err := l.driver.Attach(t.Context(), other, second.Path()); err == nil || !strings.Contains(err.Error(), "interface nic0 has a vlan of it already, made by somebody else") {
		t.Errorf("a tag that the host has: %v", err)
	}
}

func TestSharePlan(t *testing.T) {
	l := sharedLab(t)
	l.host.Run(t, `
		ip link add br0 type bridge
		ip link set nic1 master br0`)
	macvlan := model.Share{Type: "macvlan", Mode: "private", Slots: 4}
	for _, tt := range []struct {
		offer      model.Share
		parameters string
		want       rtnl.Child
		refusal    string
	}{
		{offer: macvlan, want: rtnl.Child{Kind: "macvlan", Mode: "private"}},
		{offer: macvlan, parameters: `{"interface": {"type": "macvlan", "mode": "vepa"}}`, want: rtnl.Child{Kind: "macvlan", Mode: "vepa"}},
		{offer: model.Share{Type: "macvlan", Slots: 1}, want: rtnl.Child{Kind: "macvlan", Mode: "bridge"}},
		{offer: model.Share{Type: "ipvlan", Slots: 1}, want: rtnl.Child{Kind: "ipvlan", Mode: "l2", Flag: "bridge"}},
		{offer: model.Share{Type: "ipvlan", Mode: "l3s", Flag: "vepa", Slots: 1}, parameters: `{"interface": {"type": "ipvlan", "mode": "l3s"}}`, want: rtnl.Child{Kind: "ipvlan", Mode: "l3s", Flag: "vepa"}},
		{offer: macvlan, parameters: `{"interface": {"type": "ipvlan"}}`, refusal: `interface.type: "ipvlan": the NIC is shared as macvlan: want that, or leave it out`},
		{offer: macvlan, parameters: `{"interface": {"type": "passthrough"}}`, refusal: `interface.type: "passthrough": the NIC is shared as macvlan`},
		{offer: macvlan, parameters: `{"interface": {"type": "macvlan", "mode": "passthru"}}`, refusal: `interface.mode: "passthru" has the NIC alone, and it is shared`},
		{offer: model.Share{Type: "ipvlan", Mode: "l3", Slots: 1}, parameters: `{"interface": {"type": "ipvlan", "mode": "l2"}}`, refusal: `interface.mode: "l2": all ipvlans of a NIC have one mode, and this one's is l3`},
		{offer: model.Share{Type: "vlan", FirstVLAN: 5, LastVLAN: 9, Slots: 1}, refusal: "interface.vlanID: the NIC is shared as vlan: want type: vlan, and a tag of 5-9"},
		{offer: model.Share{Type: "vlan", FirstVLAN: 5, LastVLAN: 9, Slots: 1}, parameters: `{"interface": {"type": "vlan", "vlanID": 10}}`, refusal: "interface.vlanID: 10: want one of 5-9, which the NIC is shared with"},
		{offer: macvlan, parameters: `{"interface": {"mtu": 1401}}`, refusal: "interface.mtu: 1401: want at most 1400, the MTU of interface nic0 that it stands on"},
		{offer: macvlan, parameters: `{"interface": {"dhcp": true}}`, refusal: "interface.dhcp: Forbidden: a link on a shared NIC is there with the pod only"},
		{offer: macvlan, parameters: `{"ethtool": {"features": {"tso": false}}}`, refusal: "ethtool.features: Forbidden: belongs to the NIC, which others share: leave it out"},
		{offer: macvlan, parameters: `{"interface": {"disableEbpfPrograms": true}}`, refusal: "interface.disableEbpfPrograms: Forbidden: belongs to the NIC"},
		{offer: macvlan, parameters: `{"interface": {"vf": {"vlan": 5}}}`, refusal: "interface.vf: Forbidden: belongs to the NIC"},
	} {
		r, err := l.planShare(t, tt.offer, shareOf("a", tt.parameters, "nic0"))
		switch {
		case tt.refusal == "" && err == nil:
			plan, err := ReadPlan(r.Devices[0])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, plan.Child.Child); diff != "" {
				t.Errorf("%+v, %s (-want +got):\n%s", tt.offer, tt.parameters, diff)
			}
		case tt.refusal == "" || err == nil || !strings.Contains(err.Error(), tt.refusal):
			t.Errorf("%+v, %s: error %v\nwant %s", tt.offer, tt.parameters, err, tt.refusal)
		}
	}

	l.host.Run(t, "ip link set nic0 down")
	if _, err := l.planShare(t, macvlan, shareOf("a", "", "nic0")); err == nil || !strings.Contains(err.Error(), "interface nic0 is down: want it up, as by links[].up of a HostPolicy") {
		t.Errorf("a NIC that is down: %v", err)
	}
	m := l.machine(t)
	slicecodec.FindNIC(m, "nic1").Share = &macvlan
	if _, err := l.driver.Plan(shareOf("a", "", "nic1"), m, nil); err == nil || !strings.Contains(err.Error(), "interface nic1 is a port of br0") {
		t.Errorf("a port of a bridge: %v", err)
	}
	if _, err := l.driver.Plan(shareOf("a", "", "nic2"), m, nil); err == nil || !strings.Contains(err.Error(), "nic2 is not shared any more: want a HostPolicy with links[].share for it") {
		t.Errorf("a share of a NIC that is not shared: %v", err)
	}
}

// What the host itself has on a NIC is not for a claim to meet when its pod starts.
func TestHostsOwnLinks(t *testing.T) {
	l := sharedLab(t)
	ipvlan := model.Share{Type: "ipvlan", Slots: 4}
	macvlan := model.Share{Type: "macvlan", Slots: 4}
	vlan := model.Share{Type: "vlan", FirstVLAN: 100, LastVLAN: 110, Slots: 4}
	for _, tt := range []struct {
		add, parameters string
		offer           model.Share
		refusal         string
	}{
		{"type vlan id 106", `{"interface": {"type": "vlan", "vlanID": 106}}`, vlan, "interface.vlanID: 106: interface mine has it on nic0, made by somebody else: want another of 100-110"},
		{"type vlan id 106", `{"interface": {"type": "vlan", "vlanID": 107}}`, vlan, ""},
		{"type vlan id 106", "", macvlan, ""},
		{"type macvlan mode bridge", "", ipvlan, "interface nic0 carries mine, of kind macvlan, made by somebody else, and the kernel has no ipvlan beside it: remove it, or offer the NIC as macvlan"},
		{"type macvlan mode bridge", "", macvlan, ""},
		{"type macvlan mode passthru", "", macvlan, "interface nic0 carries mine, a macvlan of mode passthru, which has it alone: remove that"},
		{"type ipvlan mode l3 private", "", macvlan, "interface nic0 carries mine, of kind ipvlan, made by somebody else, and the kernel has no macvlan beside it"},
		{"type ipvlan mode l3 private", "", ipvlan, "interface nic0 carries mine, an ipvlan of mode l3 private, made by somebody else, and all of a link have one"},
		{"type ipvlan mode l3 private", "", model.Share{Type: "ipvlan", Mode: "l3", Flag: "private", Slots: 4}, ""},
		{"type macvlan mode bridge", `{"interface": {"hardwareAddr": "02:00:00:00:00:77"}}`, macvlan, "interface.hardwareAddr: 02:00:00:00:00:77: interface mine of the host has it: give each its own, or leave it out"},
		{"type macvlan mode bridge", `{"interface": {"hardwareAddr": "02:00:00:00:00:00"}}`, macvlan, "interface.hardwareAddr: 02:00:00:00:00:00: interface nic0 of the host has it"},
	} {
		t.Run(tt.add+", "+tt.offer.Type+" "+tt.parameters, func(t *testing.T) {
			kind := strings.Fields(tt.add)[1]
			hosttest.NeedLink(t, kind)
			address := ""
			if kind == "macvlan" && !strings.Contains(tt.add, "passthru") {
				address = "address 02:00:00:00:00:77 "
			}
			l.host.Run(t, "ip link add link nic0 name mine "+address+tt.add)
			defer l.host.Run(t, "ip link delete mine")
			_, err := l.planShare(t, tt.offer, shareOf("a", tt.parameters, "nic0"))
			if (err == nil) != (tt.refusal == "") || err != nil && (!strings.Contains(err.Error(), tt.refusal) || driver.OnlyHeld(err)) {
				t.Errorf("%v, want %q", err, tt.refusal)
			}
		})
	}
}

// What the links of a NIC have of it each alone is refused to the second claim that wants it,
// and to the second request of one claim.
func TestChildrenOfOneNIC(t *testing.T) {
	l := sharedLab(t)
	vlan := model.Share{Type: "vlan", FirstVLAN: 100, LastVLAN: 110, Slots: 4}
	macvlan := model.Share{Type: "macvlan", Slots: 2}
	const tagged, addressed = `{"interface": {"name": %q, "type": "vlan", "vlanID": 105}}`, `{"interface": {"name": %q, "hardwareAddr": "02:00:00:00:00:55"}}`
	for _, tt := range []struct {
		what, parameters string
		offer            model.Share
		refusal          string // with the holder for %s
	}{
		{"tag", tagged, vlan, "interface.vlanID: 105: %s has it on this NIC: want another of 100-110"},
		{"hardware address", addressed, macvlan, "interface.hardwareAddr: 02:00:00:00:00:55: %s has it on this NIC: give each its own, or leave it out"},
		{"hardware address of vlans", `{"interface": {"name": %[1]q, "type": "vlan", "vlanID": 10%.1[1]s, "hardwareAddr": "02:00:00:00:00:55"}}`, vlan, ""},
		{"slots", `{"interface": {"name": %q}}`, model.Share{Type: "macvlan", Slots: 1}, "dra.net/slots of 1: the claim takes 1, and 1 are held, by %s: end one of them, or want more slots"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			of := func(name, ifname string) driver.Claim {
				return shareOf(name, fmt.Sprintf(tt.parameters, ifname), "nic0")
			}
			first := l.mustPlanShare(t, tt.offer, of("a", "1st"))
			_, err := l.planShare(t, tt.offer, of("b", "2nd"), first)
			refused(t, "another claim", err, tt.refusal, "claim default/a")
			if err != nil && !driver.OnlyHeld(err) {
				t.Errorf("%v does not pass", err)
			}
			both := of("c", "3rd")
			second := of("d", "4th").Devices[0]
			second.Request = "second"
			both.Devices = append(both.Devices, second)
			_, err = l.planShare(t, tt.offer, both)
			if strings.HasPrefix(tt.what, "hardware address") { // of one pod
				refused(t, "one claim", err, "interface.hardwareAddr: 02:00:00:00:00:55", "")
				return
			}
			refused(t, "one claim", err, tt.refusal, "request nic of this claim")
			if err != nil && driver.OnlyHeld(err) {
				t.Errorf("%v would never pass", err)
			}
		})
	}
	three := shareOf("a", "", "nic0")
	three.Devices[0].Consumed = map[string]resource.Quantity{slicecodec.CapacitySlots: resource.MustParse("3")}
	_, err := l.planShare(t, macvlan, three)
	refused(t, "more than there are by now", err, "dra.net/slots of 2: the claim takes 3: delete the claim, so that it is allocated anew", "")
}

func refused(t *testing.T, what string, err error, want, holder string) {
	t.Helper()
	if holder != "" {
		want = strings.ReplaceAll(want, "%s", holder)
	}
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// A NIC that is offered both ways is had in one: whole, under its other name, or in shares.
func TestTwins(t *testing.T) {
	l := sharedLab(t)
	offer := model.Share{Type: "macvlan", Slots: 4, AlsoExclusive: true}
	twin := claim("", "nic0-whole")
	whole := l.mustPlanShare(t, offer, twin)
	share := l.mustPlanShare(t, offer, shareOf("a", "", "nic0"))
	_, err := l.planShare(t, offer, shareOf("b", "", "nic0"), whole)
	refused(t, "a share of what a claim has whole", err, "claim default/claim holds it whole", "")
	_, err = l.planShare(t, offer, twin, share)
	refused(t, "the whole of what a claim has a share of", err, "claim default/a holds it", "")
	_, err = l.driver.Plan(twin, l.machine(t), nil)
	refused(t, "the offer has gone", err, "is not offered both whole and in shares any more: delete the claim, so that it is allocated anew", "")
	both := shareOf("c", "", "nic0")
	both.Devices = append(both.Devices, twin.Devices...)
	_, err = l.planShare(t, offer, both)
	refused(t, "one claim", err, "the claim has the NIC whole and a share of it: want one of them", "")

	pod := hosttest.NewNamespace(t)
	pod.Run(t, quiet)
	before := look(t, l.host)
	if s := l.attach(t, whole, pod); len(s) != 1 || s[0].Device != "nic0-whole" || s[0].InterfaceName != "nic0" {
		t.Errorf("status %+v, want nic0 in the pod", s)
	}
	if err := l.driver.Detach(t.Context(), whole, pod.Path()); err != nil {
		t.Fatal(err)
	}
	expect(t, "the host afterwards", before, l.host)

	held, err := HeldShares(whole)
	if err != nil || len(held) != 1 || held[0].Slots != 0 || held[0].NIC.Share == nil {
		t.Errorf("held %+v, %v; want nic0 as it is offered, and no slots", held, err)
	}
	if nics, err := HeldNICs(whole); err != nil || len(nics) != 1 || nics[0].Share != nil {
		t.Errorf("held whole %+v, %v", nics, err)
	}
}

// Where a pod sees no RDMA device that stays on the host, a share has none, and the whole has.
func TestTwinsOfExclusiveRDMA(t *testing.T) {
	l := sharedLab(t)
	fake := newFakeRDMA(t, rdmaState{Mode: rdma.Exclusive, Devices: []rdmaStateDevice{{Name: "mlx5_0", Namespace: inode(l.host.Fd())}}})
	l.rdma = &fake
	l.driver = l.newDriver(t)
	offer := model.Share{Type: "macvlan", Slots: 4, AlsoExclusive: true, WithoutRDMA: true}
	for device, want := range map[string]bool{"nic0": false, "nic0-whole": true} {
		c := claim("", device)
		if !want {
			c = shareOf("a", "", device)
		}
		r := l.mustPlanShare(t, offer, c)
		plan, err := ReadPlan(r.Devices[0])
		if err != nil || r.Devices[0].RDMA != want || (plan.RDMA != nil) != want {
			t.Errorf("%s: RDMA %t, %+v, %v; want %t", device, r.Devices[0].RDMA, plan.RDMA, err, want)
		}
	}
}

// A container has the files of the NIC that its pod has a share of, and of no other.
func TestFilesOfSharedRDMA(t *testing.T) {
	l := sharedLab(t)
	fake := newFakeRDMA(t, rdmaState{Mode: rdma.Shared, Devices: []rdmaStateDevice{
		{Name: "mlx5_0", Namespace: inode(l.host.Fd())}, {Name: "mlx5_1", Namespace: inode(l.host.Fd())},
	}})
	l.rdma = &fake
	l.driver = l.newDriver(t)
	m := l.machine(t)
	for i, files := range [][]string{
		{"/dev/infiniband/uverbs0", "/dev/infiniband/umad0", "/dev/infiniband/rdma_cm"},
		{"/dev/infiniband/uverbs1", "/dev/infiniband/umad1", "/dev/infiniband/rdma_cm"},
	} {
		m.NICs[i].RDMA = &model.RDMADevice{Name: fmt.Sprint("mlx5_", i), CharDevices: files}
	}
	slicecodec.FindNIC(m, "nic0").Share = &model.Share{Type: "macvlan", Slots: 4}
	for parameters, want := range map[string]string{
		"":                         "/dev/infiniband/uverbs0 /dev/infiniband/rdma_cm",
		`{"rdma": {"umad": true}}`: "/dev/infiniband/uverbs0 /dev/infiniband/umad0 /dev/infiniband/rdma_cm",
	} {
		r, err := l.driver.Plan(shareOf("a", parameters, "nic0"), m, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range r.Devices[0].Edits.DeviceNodes {
			got = append(got, n.Path)
		}
		if strings.Join(got, " ") != want || !r.Devices[0].RDMA || !l.driver.MemlockFor(r) {
			t.Errorf("%s: files %v, want %s and the right to lock memory", parameters, got, want)
		}
		pod := hosttest.NewNamespace(t)
		if e, err := l.driver.ContainerEdits(t.Context(), []driver.Record{r}, pod.Path()); err != nil || len(e.CharDevices) != 0 {
			t.Errorf("%s: %+v, %v; want no files beside those of CDI", parameters, e.CharDevices, err)
		}
	}
}

// The pool of an offer gives addresses to claims that say nothing of them.
func TestPoolOfAnOffer(t *testing.T) {
	l := sharedLab(t)
	l.driver.pools = fabric(t)
	offer := model.Share{Type: "macvlan", Slots: 4, Pool: "fabric"}
	for parameters, want := range map[string]string{
		"":                                "10.77.0.",
		`{"interface": {"name": "net1"}}`: "10.77.0.",
		`{"interface": {"addresses": ["10.99.0.2/24"]}}`: "10.99.0.2",
		`{"interface": {"addressing": "unnumbered"}}`:    "",
		`{"interface": {"ipam": {"pool": "another"}}}`:   `interface.ipam.pool: "another": there is no such NetworkAddressPool`,
	} {
		r, err := l.planShare(t, offer, shareOf("a", parameters, "nic0"))
		if err != nil {
			if want == "" || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", parameters, err, want)
			}
			continue
		}
		addresses, err := Addresses(r)
		if err != nil {
			t.Fatal(err)
		}
		if (len(addresses) > 0) != (want != "") || len(addresses) > 0 && !strings.HasPrefix(addresses[0].String(), want) {
			t.Errorf("%s: addresses %v, want %q", parameters, addresses, want)
		}
	}
}

// A bond that cannot move is shared as a NIC is.
func TestChildOnBond(t *testing.T) {
	hosttest.NeedLink(t, "bond")
	l := sharedLab(t)
	l.fabric.Run(t, `
		ip link add br0 type bridge
		ip link set port1 master br0
		ip link set port2 master br0
		ip link set br0 up
		ip address add 10.56.218.1/24 dev br0`)
	l.host.Run(t, `
		ip link set nic1 down
		ip link set nic2 down
		ip link add nicbond0 type bond mode active-backup miimon 50
		ip link set nic1 master nicbond0
		ip link set nic2 master nicbond0
		ip link set nicbond0 up`)
	pod := hosttest.NewNamespace(t)
	pod.Run(t, quiet)
	m := l.machine(t)
	slicecodec.FindNIC(m, "nicbond0").Share = &model.Share{Type: "macvlan", Slots: 4}
	r, err := l.driver.Plan(shareOf("a", `{"interface": {"name": "net1", "addresses": ["10.56.218.2/24"]}}`, "nicbond0"), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := l.host.Run(t, "ip -o link show nicbond0")
	l.attach(t, r, pod)
	reach(t, pod, l.fabric, "10.56.218.1")
	l.host.Run(t, "ip link set nic1 down") // the other port carries the packets
	reach(t, pod, l.fabric, "10.56.218.1")
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	if got := l.host.Run(t, "ip -o link show nicbond0"); strings.Fields(got)[1] != strings.Fields(before)[1] {
		t.Errorf("the bond: %s; before %s", got, before)
	}
	slicecodec.FindNIC(m, "nic1").Share = &model.Share{Type: "macvlan", Slots: 4}
	_, err = l.driver.Plan(shareOf("b", "", "nic1"), m, nil)
	refused(t, "a port of the bond", err, "interface nic1 is a port of nicbond0", "")
}

// Who has a NIC whole, and who has a share of it, keep each other away; shares do not.
func TestSharesBesideOthers(t *testing.T) {
	l := sharedLab(t)
	offer := model.Share{Type: "macvlan", Slots: 4}
	whole := l.plan(t, claim("", "nic0"))
	if _, err := l.planShare(t, offer, shareOf("a", "", "nic0"), whole); err == nil || !strings.Contains(err.Error(), "claim default/claim holds it whole") || !driver.OnlyHeld(err) {
		t.Errorf("a share of a NIC that a claim has whole: %v", err)
	}
	three := shareOf("a", "", "nic0")
	three.Devices[0].Consumed = map[string]resource.Quantity{slicecodec.CapacitySlots: resource.MustParse("3")}
	r := l.mustPlanShare(t, offer, three)
	if _, err := l.driver.Plan(claim("", "nic0"), l.machine(t), []driver.Record{r}); err == nil || !strings.Contains(err.Error(), "claim default/a holds it") || !driver.OnlyHeld(err) {
		t.Errorf("a whole NIC that a claim has a share of: %v", err)
	}
	m := l.machine(t)
	slicecodec.FindNIC(m, "nic0").Share = &offer
	if _, err := l.driver.Plan(claim("", "nic0"), m, nil); err == nil || !strings.Contains(err.Error(), "is shared, and the claim was allocated all of it") {
		t.Errorf("a whole NIC that is shared by now: %v", err)
	}
	if held, err := HeldNICs(r); err != nil || len(held) != 0 {
		t.Errorf("held whole: %v, %v; want none", held, err)
	}
	shares, err := HeldShares(r)
	if err != nil || len(shares) != 1 || shares[0].Slots != 3 || *shares[0].NIC.Share != offer {
		t.Errorf("shares %+v, %v; want 3 slots of nic0", shares, err)
	}
	if moved, err := Moved(r); err != nil || len(moved) != 0 {
		t.Errorf("moved %v, %v; want none: the NIC stays", moved, err)
	}
	text, err := json.Marshal(r)
	if err != nil || r.Devices[0].ShareID != "share-a" || r.Version != driver.RecordVersionShares || whole.Version != driver.RecordVersion {
		t.Errorf("share %q, %v, of %s", r.Devices[0].ShareID, err, text)
	}
}

// What a webhook resolves a profile to is held to the offer as a claim's own parameters are.
func TestProfilesOfSharedNICs(t *testing.T) {
	l := sharedLab(t)
	l.host.Run(t, "ip address add 10.56.217.5/24 dev nic0")
	offer := model.Share{Type: "ipvlan", Slots: 4}
	resolved := func(name, answer string) driver.Claim {
		c := shareOf(name, `{"profile": "acme.com/rail"}`, "nic0")
		c.Devices[0].Configs = append([]driver.Config{{Source: "profile", Raw: []byte(answer)}}, c.Devices[0].Configs...)
		return c
	}
	const answer = `{"interface": {"type": "ipvlan", "addresses": ["10.56.217.171/24"]}}`
	held := l.mustPlanShare(t, offer, resolved("held", answer))
	for answer, want := range map[string]string{
		answer: "interface.addresses: 10.56.217.171: claim default/held has it on this NIC, and ipvlans of one NIC are told apart by their addresses",
		`{"interface": {"addresses": ["10.56.217.5/24"]}}`:          "interface.addresses: 10.56.217.5: interface nic0 of the host has it, and would hear nothing more",
		`{"interface": {"type": "macvlan"}}`:                        `interface.type: "macvlan": the NIC is shared as ipvlan`,
		`{"interface": {"type": "ipvlan", "mode": "l3"}}`:           `interface.mode: "l3": all ipvlans of a NIC have one mode`,
		`{"interface": {"hardwareAddr": "02:00:00:00:00:07"}}`:      "interface.hardwareAddr: 02:00:00:00:00:07: an ipvlan has the address of its NIC",
		`{"interface": {"vf": {"vlan": 7}}}`:                        "belongs to the NIC, which others share",
		`{"ethtool": {"features": {"tcp-segmentation-off": true}}}`: "belongs to the NIC, which others share",
		`{"interface": {"mtu": 9000}}`:                              "interface.mtu: 9000: want at most 1400, the MTU of interface nic0",
		`{"interface": {"addresses": ["10.56.217.0.1/24"]}}`:        "interface.addresses",
		`{"interface": {"name": "../eth0"}}`:                        "interface.name",
	} {
		if _, err := l.planShare(t, offer, resolved("a", answer), held); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", answer, err, want)
		}
	}
	whole := claim("", "nic0")
	whole.Devices[0].Configs = []driver.Config{{Source: "profile", Raw: []byte(answer)}}
	if _, err := l.driver.Plan(whole, l.machine(t), nil); err == nil || !strings.Contains(err.Error(), "is of NICs that are shared, and the claim was allocated a whole one") {
		t.Errorf("a whole NIC: %v", err)
	}
	// The addresses that tell ipvlans apart are nothing to macvlans.
	macvlan := model.Share{Type: "macvlan", Slots: 4}
	const plain = `{"interface": {"addresses": ["10.56.217.171/24"]}}`
	l.mustPlanShare(t, macvlan, resolved("b", plain), l.mustPlanShare(t, macvlan, resolved("a", plain)))
}

// An address that goes from one pod to another has another hardware address, of which the
// pods that knew the first one hear at once.
func TestChildrenAnnounceThemselves(t *testing.T) {
	l := sharedLab(t)
	offer := model.Share{Type: "macvlan", Slots: 4}
	pods := map[string]*hosttest.Namespace{}
	records := map[string]driver.Record{}
	for name, address := range map[string]string{"peer": "10.56.217.1/24", "old": "10.56.217.2/24", "new": "10.56.217.2/24"} {
		pods[name] = hosttest.NewNamespace(t)
		pods[name].Run(t, quiet)
		records[name] = l.mustPlanShare(t, offer, shareOf(name, fmt.Sprintf(`{"interface": {"name": "net1", "addresses": [%q]}}`, address), "nic0"))
	}
	l.attach(t, records["peer"], pods["peer"])
	l.attach(t, records["old"], pods["old"])
	reach(t, pods["peer"], pods["old"], "10.56.217.2")
	if err := l.driver.Detach(t.Context(), records["old"], pods["old"].Path()); err != nil {
		t.Fatal(err)
	}
	mac := l.attach(t, records["new"], pods["new"])[0].HardwareAddress
	for range 100 {
		if strings.Contains(pods["peer"].Run(t, "ip neighbour show dev net1"), "lladdr "+mac) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("the other pod knows %s, want %s", pods["peer"].Run(t, "ip neighbour show dev net1"), mac)
}

// One pod with two shares of one NIC, of which the second cannot be had: nothing is left.
func TestChildrenAreAllOrNothing(t *testing.T) {
	l := sharedLab(t)
	pod := hosttest.NewNamespace(t)
	pod.Run(t, quiet)
	c := shareOf("a", `{"interface": {"name": "net1"}}`, "nic0")
	second := c.Devices[0]
	second.Request, second.ShareID = "second", ptr(types.UID("share-second"))
	second.Configs = []driver.Config{{Source: "claim", Raw: []byte(`{"interface": {"name": "net2"}}`)}}
	c.Devices = append(c.Devices, second)
	r := l.mustPlanShare(t, model.Share{Type: "macvlan", Slots: 4}, c)
	pod.Run(t, "ip link add net2 type bridge")
	empty := look(t, pod)
	if _, err := l.driver.Attach(t.Context(), r, pod.Path()); err == nil || !strings.Contains(err.Error(), `interface.name: the pod has an interface "net2"`) {
		t.Fatalf("error %v, want that net2 is taken", err)
	}
	expect(t, "the pod", empty, pod)
	pod.Run(t, "ip link delete net2")
	if s := l.attach(t, r, pod); len(s) != 2 || s[0].InterfaceName != "net1" || s[1].InterfaceName != "net2" || s[0].HardwareAddress == s[1].HardwareAddress {
		t.Errorf("status %+v, want two links with addresses of their own", s)
	}
}

// A link of somebody else's is not taken for one that was half made: one of a network plugin's
// is up when devices come.
func TestChildBesideAnother(t *testing.T) {
	hosttest.NeedLink(t, "macvlan")
	l := sharedLab(t)
	pod := hosttest.NewNamespace(t)
	pod.Run(t, quiet+`
		ip link add uplink type veth peer name far
		ip link set far up
		ip link set uplink up
		ip link add link uplink name net1 type macvlan
		ip link set net1 up`)
	r := l.mustPlanShare(t, model.Share{Type: "macvlan", Slots: 4}, shareOf("a", `{"interface": {"name": "net1"}}`, "nic0"))
	before := look(t, pod)
	if _, err := l.driver.Attach(t.Context(), r, pod.Path()); err == nil || !strings.Contains(err.Error(), `interface.name: the pod has an interface "net1"`) {
		t.Errorf("error %v, want that net1 is taken", err)
	}
	expect(t, "the pod", before, pod)
}

// A NIC that was renamed after its claim was prepared carries the link all the same, and not
// the one that has its name now.
func TestChildOfARenamedNIC(t *testing.T) {
	l := sharedLab(t)
	pod := hosttest.NewNamespace(t)
	pod.Run(t, quiet)
	r := l.mustPlanShare(t, model.Share{Type: "macvlan", Slots: 4}, shareOf("a", `{"interface": {"name": "net1"}}`, "nic0"))
	l.host.Run(t, `
		ip link set nic0 down
		ip link set nic0 name lan0
		ip link set lan0 up
		ip link add nic0 type veth peer name far0
		ip link set nic0 up`)
	l.attach(t, r, pod)
	l.host.Run(t, "ip link delete nic0") // which would take what stands on it along
	if l.childIn(t, pod, r) == nil {
		t.Error("the link stood on the other nic0, want lan0")
	}
}

// After a kill at any change to the kernel, the next process attaches the link, or ends it.
func TestKilledWithChildren(t *testing.T) {
	for _, do := range []string{"attach", "detach"} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			newCrashingChildren(t).killEverywhere(t, do)
		})
	}
}

// newCrashingChildren is a lab with a claim of two shares of one NIC. The host has a link of
// the second one's name, so that it is made under another.
func newCrashingChildren(t *testing.T) *crashing {
	t.Helper()
	c := &crashing{lab: sharedLab(t), pod: hosttest.NewNamespace(t), rdmaInPod: "mlx5_0 host"}
	fake := newFakeRDMA(t, rdmaState{Mode: rdma.Shared, Devices: []rdmaStateDevice{{Name: "mlx5_0", Namespace: inode(c.host.Fd())}}})
	c.rdma = &fake
	c.driver = c.newDriver(t)
	c.pod.Run(t, quiet)
	c.host.Run(t, "ip link add net2 type bridge")
	c.before, c.empty, c.rules = look(t, c.host), look(t, c.pod), rulesOf(t, c.pod)
	request := shareOf("a", `{"interface": {"name": "net1", "addresses": ["10.45.0.2/24", "fd45::2/64"], "gsoMaxSize": 32768},
		"routes": [{"destination": "10.60.0.0/16", "gateway": "10.45.0.1"}], "rules": [{"priority": 900, "source": "10.45.0.0/16", "table": 77}]}`, "nic0")
	second := request.Devices[0]
	second.Request, second.ShareID = "second", ptr(types.UID("share-second"))
	second.Configs = []driver.Config{{Source: "claim", Raw: []byte(`{"interface": {"name": "net2"}}`)}}
	request.Devices = append(request.Devices, second)
	c.planned = c.mustPlanShare(t, model.Share{Type: "macvlan", Slots: 4}, request)
	c.staged = c.stage(t)
	c.attach(t, c.staged, c.pod)
	c.inside = look(t, c.pod)
	c.back(t, "before the first kill")
	return c
}

// withoutFilters is a look without the addresses that the host's link takes packets for:
// those of the links on it are among them.
func withoutFilters(text string) string {
	return regexp.MustCompile(`(?m)^\S+ dev nic0 self permanent\n`).ReplaceAllString(text, "")
}

// reach sends a packet from one namespace to an address of another.
func reach(t *testing.T, from, to *hosttest.Namespace, address string) {
	t.Helper()
	var there net.PacketConn
	to.Do(t, func() (err error) {
		there, err = net.ListenPacket("udp4", address+":0")
		return err
	})
	defer func() { _ = there.Close() }()
	from.Do(t, func() error {
		here, err := net.Dial("udp4", there.LocalAddr().String())
		if err != nil {
			return err
		}
		defer func() { _ = here.Close() }()
		for range 50 { // until the neighbour is known and the link's carrier is up
			if _, err := here.Write([]byte("here")); err != nil {
				return err
			}
			_ = there.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			if n, _, err := there.ReadFrom(make([]byte, 8)); err == nil && n == 4 {
				return nil
			}
		}
		return fmt.Errorf("nothing arrived at %s", address)
	})
}

// childIn is the record's first link in a pod.
func (l *lab) childIn(t *testing.T, ns *hosttest.Namespace, r driver.Record) *rtnl.Link {
	t.Helper()
	plan, err := ReadPlan(r.Devices[0])
	if err != nil {
		t.Fatal(err)
	}
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	links, err := conn.Links()
	if err != nil {
		t.Fatal(err)
	}
	link, err := plan.identity().Find(links)
	if err != nil {
		t.Fatal(err)
	}
	return link
}
