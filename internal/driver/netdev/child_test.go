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
	l.host.Run(t, "ip link add link nic0 name mine type vlan id 106")
	other := l.mustPlanShare(t, offer, shareOf("c", `{"interface": {"name": "net1", "type": "vlan", "vlanID": 106}}`, "nic0"), r)
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

// After a kill at any change to the kernel, the next process attaches the link, or ends it.
func TestKilledWithChildren(t *testing.T) {
	for _, do := range []string{"attach", "detach"} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			newCrashingChildren(t).killEverywhere(t, do)
		})
	}
}

// newCrashingChildren is a lab with a claim of two shares of one NIC.
func newCrashingChildren(t *testing.T) *crashing {
	t.Helper()
	c := &crashing{lab: sharedLab(t), pod: hosttest.NewNamespace(t), rdmaInPod: "mlx5_0 host"}
	fake := newFakeRDMA(t, rdmaState{Mode: rdma.Shared, Devices: []rdmaStateDevice{{Name: "mlx5_0", Namespace: inode(c.host.Fd())}}})
	c.rdma = &fake
	c.driver = c.newDriver(t)
	c.pod.Run(t, quiet)
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
