// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// For random NICs and claims: of each kind of entry the pod gets the host's, or the
// claim's, or both where the addresses are the host's.
func TestWhatComesAlong(t *testing.T) {
	interfaces := map[string]bool{ // whether the addresses are the host's
		`{}`:                                 true,
		`{"addressing": "static"}`:           true,
		`{"addresses": ["10.0.0.2/24"]}`:     false,
		`{"addresses": []}`:                  false,
		`{"addressing": "unnumbered"}`:       false,
		`{"addressing": "dhcp"}`:             false,
		`{"dhcp": true, "addressing": null}`: false,
	}
	lists := map[string][3]string{ // routes, rules and neighbours
		"left out": {},
		"empty":    {`"routes": []`, `"rules": []`, `"neighbors": []`},
		"written": {
			`"routes": [{"destination": "10.200.0.0/16", "scope": 253}]`, `"rules": [{"priority": 9, "table": 9}]`,
			`"neighbors": [{"ipAddress": "10.0.0.9", "hardwareAddr": "02:00:00:00:00:09"}]`,
		},
	}
	for seed := range uint64(20) {
		host := randomSeen(rand.New(rand.NewPCG(seed, 0)))
		for i, hosts := range interfaces {
			for list, text := range lists {
				for kind := range 3 {
					fields := []string{`"interface": ` + i}
					if text[kind] != "" {
						fields = append(fields, text[kind])
					}
					c, err := v1alpha1.DecodeNetworkConfig([]byte("{" + strings.Join(fields, ", ") + "}"))
					if err != nil {
						t.Fatal(err)
					}
					s, err := From(c, host, nil, nil)
					if err != nil {
						t.Fatal(err)
					}
					have := [3]int{len(s.Routes), len(s.Rules), len(s.Neighbours)}
					want := [3]int{len(host.Routes), len(host.Rules), len(host.State.Neighbours)}
					if strings.Contains(i, "dhcp") {
						want[0] = 0 // the server's come
					}
					if list == "empty" || list == "written" && !hosts {
						want[kind] = 0
					}
					if have != want || s.OtherAddresses == hosts {
						t.Errorf("seed %d: %s, kind %d %s: the host's routes, rules and neighbours are %v, want %v; other addresses: %t",
							seed, i, kind, list, have, want, s.OtherAddresses)
					}
				}
			}
		}
	}
}

func randomSeen(r *rand.Rand) *hoststate.HostNIC {
	s := &hoststate.HostNIC{
		State:     hoststate.State{Name: "nic0"},
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.0.2/24")},
	}
	for i := range r.IntN(5) {
		s.Routes = append(s.Routes, rtnl.Route{
			Saved:       rtnl.Saved{Text: fmt.Sprint("route ", i)},
			Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16), Table: uint32(253 + r.IntN(2)),
		})
	}
	for i := range r.IntN(5) {
		s.Rules = append(s.Rules, rtnl.Rule{Saved: rtnl.Saved{Text: fmt.Sprint("rule ", i)}})
	}
	for i := range r.IntN(5) {
		s.State.Neighbours = append(s.State.Neighbours, rtnl.Saved{Text: fmt.Sprint("neighbour ", i)})
	}
	return s
}
