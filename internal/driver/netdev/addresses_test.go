// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/addresspool"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/model"
)

// pools are blocks by pool.
type pools map[string]addresspool.Block

func (p pools) Block(name string) (addresspool.Block, error) {
	b, there := p[name]
	if !there {
		return b, fmt.Errorf("%q: there is no such NetworkAddressPool", name)
	}
	return b, nil
}

// fabric is a pool with a block of four addresses, of which three can be given out.
func fabric(t *testing.T) pools {
	t.Helper()
	subnet, err := addresspool.ParseSubnet("10.77.0.0/24", 30, "10.77.0.4", nil)
	if err != nil {
		t.Fatal(err)
	}
	return pools{"fabric": {
		Pool: "fabric", Name: "fabric.1", Parts: []addresspool.Part{{Subnet: subnet, Range: subnet.Block(1)}},
		Routes: []addresspool.Route{{Destination: netip.MustParsePrefix("10.78.0.0/16"), Gateway: netip.MustParseAddr("10.77.0.4")}},
	}}
}

const fromFabric = `{"interface": {"name": "net1", "ipam": {"pool": "fabric"}}}`

// Each claim has an address of its own, until there are none, and one that was given back is
// another's.
func TestAddressesOfAPool(t *testing.T) {
	l := sharedLab(t)
	l.driver.pools = fabric(t)
	offer := model.Share{Type: "macvlan", Slots: 16}
	var held []driver.Record
	seen := map[netip.Addr]bool{}
	for i := range 3 {
		r := l.mustPlanShare(t, offer, shareOf(fmt.Sprint("c", i), fromFabric, "nic0"), held...)
		addresses, err := Addresses(r)
		if err != nil || len(addresses) != 1 || seen[addresses[0]] || addresses[0] == netip.MustParseAddr("10.77.0.4") || !netip.MustParsePrefix("10.77.0.4/30").Contains(addresses[0]) {
			t.Fatalf("addresses %v, %v; before %v", addresses, err, seen)
		}
		seen[addresses[0]] = true
		if blocks, err := BlocksOf(r); err != nil || len(blocks) != 1 || blocks[0] != "fabric.1" {
			t.Errorf("blocks %v, %v", blocks, err)
		}
		held = append(held, r)
	}
	_, err := l.planShare(t, offer, shareOf("d", fromFabric, "nic0"), held...)
	if err == nil || !strings.Contains(err.Error(), `interface.ipam.pool: "fabric": block fabric.1 (10.77.0.4/30) of pool fabric has no free address`) {
		t.Errorf("a full block: %v", err)
	}
	r := l.mustPlanShare(t, offer, shareOf("d", fromFabric, "nic0"), held[1:]...)
	first, err := Addresses(held[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Addresses(r); err != nil || got[0] != first[0] {
		t.Errorf("after one was given back: %v, %v; want %v", got, err, first)
	}
	if again := l.mustPlanShare(t, offer, shareOf("d", fromFabric, "nic0"), held[1:]...); string(again.Devices[0].Plan) != string(r.Devices[0].Plan) {
		t.Error("planned again, it is another plan")
	}
	// An address that a claim wrote itself is in use as well.
	static := l.mustPlanShare(t, offer, shareOf("s", `{"interface": {"name": "net1", "addresses": ["10.77.0.5/24"]}}`, "nic0"))
	for i := range 2 {
		r := l.mustPlanShare(t, offer, shareOf(fmt.Sprint("e", i), fromFabric, "nic0"), append(held[:0:0], static)...)
		if got, err := Addresses(r); err != nil || got[0] == netip.MustParseAddr("10.77.0.5") {
			t.Errorf("%v, %v: is that of another claim", got, err)
		}
	}
}

// After a reboot an address is still its claim's: whoever is prepared first, nobody else gets it,
// and the claim has it again, also where it is excluded meanwhile.
func TestAddressesAfterAReboot(t *testing.T) {
	l := sharedLab(t)
	l.driver.pools = fabric(t)
	offer := model.Share{Type: "macvlan", Slots: 16}
	a := l.mustPlanShare(t, offer, shareOf("a", fromFabric, "nic0"))
	b := l.mustPlanShare(t, offer, shareOf("b", fromFabric, "nic0"), a)
	before := []driver.Record{a, b}
	anew := func(name string, held ...driver.Record) (netip.Addr, error) {
		t.Helper()
		c := shareOf(name, fromFabric, "nic0")
		c.Before = before
		r, err := l.planShare(t, offer, c, held...)
		if err != nil {
			return netip.Addr{}, err
		}
		addresses, err := Addresses(r)
		if err != nil || len(addresses) != 1 {
			t.Fatalf("claim %s: addresses %v, %v", name, addresses, err)
		}
		return addresses[0], nil
	}
	had := map[string]netip.Addr{}
	for name, r := range map[string]driver.Record{"a": a, "b": b} {
		addresses, err := Addresses(r)
		if err != nil {
			t.Fatal(err)
		}
		had[name] = addresses[0]
	}
	if c, err := anew("c"); err != nil || c == had["a"] || c == had["b"] {
		t.Errorf("another claim has %s, %v; want neither of %v", c, err, had)
	}
	excluding := l.driver.pools.(pools)
	block := excluding["fabric"]
	block.Parts[0].Exclude = append(block.Parts[0].Exclude, netip.PrefixFrom(had["a"], 32))
	for name, want := range had {
		if got, err := anew(name); err != nil || got != want {
			t.Errorf("claim %s has %s, %v; had %s", name, got, err, want)
		}
	}
	// A claim that wrote the address itself, and was prepared first, has it.
	static := l.mustPlanShare(t, offer, shareOf("s", fmt.Sprintf(`{"interface": {"name": "net1", "addresses": ["%s/24"]}}`, had["b"]), "nic0"))
	if got, err := anew("b", static); err != nil || got == had["b"] {
		t.Errorf("claim b has %s, %v; that is another's", got, err)
	}
	// In a block of another name nobody had anything.
	block.Name = "fabric.2"
	excluding["fabric"] = block
	if got, err := anew("a"); err != nil || got == had["a"] {
		t.Errorf("claim a has %s of another block, which excludes it, %v", got, err)
	}
}

// In the pod the address has the subnet's prefix length, and the pool's routes are there.
func TestPoolInThePod(t *testing.T) {
	for _, whole := range []bool{false, true} {
		l := sharedLab(t)
		l.driver.pools = fabric(t)
		pod := hosttest.NewNamespace(t)
		pod.Run(t, quiet)
		before := look(t, l.host)
		var r driver.Record
		if whole {
			r = l.plan(t, claim(fromFabric, "nic0"))
		} else {
			r = l.mustPlanShare(t, model.Share{Type: "macvlan", Slots: 1}, shareOf("a", fromFabric, "nic0"))
		}
		s := l.attach(t, r, pod)
		if len(s[0].IPs) != 1 || !strings.HasPrefix(s[0].IPs[0], "10.77.0.") || !strings.HasSuffix(s[0].IPs[0], "/24") {
			t.Errorf("whole %t: status %+v", whole, s)
		}
		if routes := pod.Run(t, "ip route"); !strings.Contains(routes, "10.78.0.0/16 via 10.77.0.4 dev net1") {
			t.Errorf("whole %t: routes %s", whole, routes)
		}
		if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
			t.Fatal(err)
		}
		expect(t, "the host", before, l.host)
	}
}

func TestPlanRefusesPools(t *testing.T) {
	l := sharedLab(t)
	if _, err := l.driver.Plan(claim(fromFabric, "nic0"), l.machine(t), nil); err == nil || !strings.Contains(err.Error(), `interface.ipam.pool: pool "fabric": this agent serves no pools`) {
		t.Errorf("without pools: %v", err)
	}
	l.driver.pools = fabric(t)
	if _, err := l.driver.Plan(claim(`{"interface": {"ipam": {"pool": "fabrik"}}}`, "nic0"), l.machine(t), nil); err == nil || !strings.Contains(err.Error(), `interface.ipam.pool: "fabrik": there is no such NetworkAddressPool`) {
		t.Errorf("a pool that is not there: %v", err)
	}
	for parameters, want := range map[string]bool{fromFabric: true, `{"interface": {"name": "net1"}}`: false, `{"interface": 1}`: false} {
		if got := FromPool(claim(parameters, "nic0")); got != want {
			t.Errorf("%s takes from a pool: %t, want %t", parameters, got, want)
		}
	}
}

// Two NICs of a claim have an address each, and a route of the claim's own replaces the
// pool's.
func TestTwoOfOnePool(t *testing.T) {
	l := sharedLab(t)
	l.host.Run(t, "ip link set nic1 up")
	l.driver.pools = fabric(t)
	c := claim(fromFabric, "nic0", "nic1")
	c.UID = types.UID("two")
	c.Devices[1].Configs = []driver.Config{{Source: "claim", Raw: []byte(`{"interface": {"name": "net2", "ipam": {"pool": "fabric"}}, "routes": []}`)}}
	r := l.plan(t, c)
	addresses, err := Addresses(r)
	if err != nil || len(addresses) != 2 || addresses[0] == addresses[1] {
		t.Errorf("addresses %v, %v", addresses, err)
	}
	for i, want := range []int{1, 0} {
		plan, err := ReadPlan(r.Devices[i])
		if err != nil || len(plan.Pod.Own.Routes) != want {
			t.Errorf("NIC %d: %d routes, %v; want %d", i, len(plan.Pod.Own.Routes), err, want)
		}
	}
}
