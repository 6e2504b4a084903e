// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
)

// alongside is busy, and a rule that leads to one of its routes.
const alongside = busy + "\nip rule add from 10.44.0.0/24 lookup 77 pref 500"

// Of the lines that a pod could have of the host's, those that each claim brings.
const (
	onLink     = "10.33.0.1 dev nic0 proto static scope link"
	inTable    = "10.99.0.0/16 via 10.33.0.1 dev nic0 table 77"
	withSource = "10.98.0.0/16 via 10.33.0.1 dev nic0 src 10.44.0.2"
	ofIPv6     = "fd0f::/48 via fd00::1 dev nic0"
	itsRule    = "500:	from 10.44.0.0/24 lookup 77"
	neighbour  = "10.44.0.9 dev nic0 lladdr 02:00:00:00:09:09"
)

// A pod gets the host's routes, rules and neighbours of the NIC, whatever its addresses
// are there. What the kernel refuses beside these is left out, and noted in the status.
func TestBesideOtherAddresses(t *testing.T) {
	const left = "left out, as the kernel refuses it beside the pod's addresses: "
	source := "route 10.98.0.0/16 via 10.33.0.1 src 10.44.0.2 table 254 proto 3: invalid argument"
	six := "route fd0f::/48 via fd00::1 table 254 proto 4 metric 1024: no route to host"
	for _, c := range []struct {
		name, parameters string
		want             []string
		note             string
	}{
		{"its own", "", []string{onLink, inTable, withSource, ofIPv6, itsRule, neighbour}, ""},
		{"others", `{"interface": {"addresses": ["10.77.0.2/24"]}}`,
			[]string{onLink, inTable, itsRule, neighbour}, left + source + "; " + six},
		{"the gateway's network", `{"interface": {"addresses": ["10.44.0.2/32", "fd00::9/64"]}}`,
			[]string{onLink, inTable, withSource, ofIPv6, itsRule, neighbour}, ""},
		{"none", `{"interface": {"addressing": "unnumbered"}}`,
			[]string{onLink, inTable, itsRule, neighbour}, left + source + "; " + six},
		{"no IPv6 at this MTU", `{"interface": {"addresses": ["10.44.0.2/24"], "mtu": 1000}}`,
			[]string{onLink, inTable, withSource, itsRule, neighbour}, left + "route fd0f::/48 via fd00::1 table 254 proto 4 metric 1024: no such device"},
		{"routes of the claim", `{"interface": {"addresses": ["10.77.0.2/24"]}, "routes": [{"destination": "10.97.0.0/16", "gateway": "10.77.0.1"}]}`,
			[]string{itsRule, neighbour}, ""},
		{"rules of the claim", `{"interface": {"addresses": ["10.44.0.2/24", "fd00::2/64"]}, "rules": [{"source": "10.77.0.0/16", "table": 77}]}`,
			[]string{onLink, inTable, withSource, ofIPv6, neighbour}, ""},
		{"neighbours of the claim", `{"interface": {"addresses": ["10.44.0.2/24", "fd00::2/64"]}, "neighbors": [{"ipAddress": "10.77.0.9", "hardwareAddr": "02:00:00:00:77:09"}]}`,
			[]string{onLink, inTable, withSource, ofIPv6, itsRule}, ""},
		{"nothing", `{"interface": {"addresses": ["10.77.0.2/24"]}, "routes": [], "rules": [], "neighbors": []}`, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.host.Run(t, alongside)
			l.cycle(t, claim(c.parameters, "nic0"), func(pod *hosttest.Namespace, r driver.Record, s []driver.DeviceStatus) {
				text := pod.Run(t, "ip route show table all\nip -6 route show\nip rule show\nip neighbour show nud permanent")
				var got []string
				for _, line := range []string{onLink, inTable, withSource, ofIPv6, itsRule, neighbour} {
					if strings.Contains(text, line) {
						got = append(got, line)
					}
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("the pod has (-want +got):\n%s\nof\n%s", diff, text)
				}
				if s[0].Note != c.note {
					t.Errorf("the note is %q\nwant        %q", s[0].Note, c.note)
				}
				if diff := cmp.Diff(s, l.attach(t, r, pod)); diff != "" {
					t.Errorf("attached again, the status is another one:\n%s", diff)
				}
			})
		})
	}
}

// A route of the claim's parameters for one NIC replaces the host's through another NIC:
// the kernel would refuse the second of them.
func TestRouteOfAnotherDevice(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy+"\nip route add 10.60.0.0/16 via 10.33.0.1 dev nic0")
	c := claim(`{"interface": {"addresses": ["10.44.0.2/24", "fd00::2/64"]}}`, "nic0", "nic1")
	c.Devices[1].Configs = []driver.Config{{Source: "claim", Raw: []byte(
		`{"interface": {"addresses": ["10.45.0.2/24"]}, "routes": [{"destination": "10.60.0.0/16", "gateway": "10.45.0.1"}]}`)}}
	l.cycle(t, c, func(pod *hosttest.Namespace, _ driver.Record, s []driver.DeviceStatus) {
		if got := strings.TrimSpace(pod.Run(t, "ip route show 10.60.0.0/16")); got != "10.60.0.0/16 via 10.45.0.1 dev nic1 proto static" {
			t.Errorf("the pod's route is %q", got)
		}
		for _, one := range s {
			if one.Note != "" {
				t.Errorf("%s: %s", one.Device, one.Note)
			}
		}
	})
}

// A note names some of what is left out, and counts the rest.
func TestNoteIsBounded(t *testing.T) {
	for _, c := range []struct {
		note    string
		leftOut []string
		want    string
	}{
		{"", nil, ""},
		{"no lease", nil, "no lease"},
		{"no lease", []string{"a"}, "no lease; left out, as the kernel refuses it beside the pod's addresses: a"},
		{"", []string{"a", "b", "c"}, "left out, as the kernel refuses it beside the pod's addresses: a; b; c"},
		{"", []string{"a", "b", "c", "d", "e"}, "left out, as the kernel refuses it beside the pod's addresses: a; b; c; and 2 more"},
	} {
		if got := noteOf(c.note, c.leftOut); got != c.want {
			t.Errorf("%q and %v: %q, want %q", c.note, c.leftOut, got, c.want)
		}
	}
}
