// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/api/v1alpha1"
)

func addresses(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, t := range texts {
		all = append(all, netip.MustParseAddr(t))
	}
	return all
}

func TestSourceRouting(t *testing.T) {
	got, err := SourceRouting(101, netip.MustParsePrefix("10.9.0.0/24"), addresses("10.9.0.5", "10.9.0.4", "10.9.0.5"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"routes":[{"destination":"10.9.0.0/24","scope":253,"table":101},` +
		`{"destination":"0.0.0.0/0","gateway":"10.9.0.1","table":101,"onlink":true}],` +
		`"rules":[{"source":"10.9.0.4/32","table":101},{"source":"10.9.0.5/32","table":101}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
	config, err := v1alpha1.DecodeNetworkConfig(got)
	if err == nil {
		err = config.Validate()
	}
	if err != nil {
		t.Errorf("the driver would refuse it: %v", err)
	}
}

// What docs/clouds.md shows is what an interface gets.
func TestDocumentedLayer(t *testing.T) {
	page, err := os.ReadFile("../../docs/clouds.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "<!-- layer: azure -->\n```json\n")
	shown, _, _ := strings.Cut(rest, "```")
	layer, err := SourceRouting(20001, netip.MustParsePrefix("10.9.0.0/24"), addresses("10.9.0.4"))
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Indent(&want, layer, "", "  "); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String()+"\n", shown); diff != "" {
		t.Errorf("docs/clouds.md (-want +got):\n%s", diff)
	}
}

func TestSourceRoutingRefuses(t *testing.T) {
	many := make([]netip.Addr, 0, maxSources+1)
	for a := netip.MustParseAddr("10.9.0.4"); len(many) <= maxSources; a = a.Next() {
		many = append(many, a)
	}
	for _, test := range []struct {
		subnet    string
		addresses []netip.Addr
		want      string
	}{
		{"10.9.0.4/24", addresses("10.9.0.4"), "want a network of IPv4"},
		{"fd00::/64", addresses("fd00::4"), "want a network of IPv4"},
		{"127.0.0.0/8", addresses("127.0.0.4"), "want a network of IPv4"},
		{"224.0.0.0/24", addresses("224.0.0.4"), "want a network of IPv4"},
		{"0.0.0.0/0", addresses("10.9.0.4"), "want a network of IPv4"},
		{"8.0.0.0/5", addresses("10.9.0.4"), "want a prefix of 8 to 30 bits"},
		{"10.9.0.4/31", addresses("10.9.0.4"), "want a prefix of 8 to 30 bits"},
		{"10.9.0.0/24", addresses("10.9.1.4"), "address 10.9.1.4: want one of subnet 10.9.0.0/24"},
		{"10.9.0.0/24", addresses("10.9.0.1"), "not its router's"},
		{"10.9.0.0/24", addresses("::ffff:10.9.0.4"), "want one of subnet"},
		{"10.9.0.0/24", nil, "no address"},
		{"10.9.0.0/24", many, "33 addresses: want at most 32"},
	} {
		got, err := SourceRouting(100, netip.MustParsePrefix(test.subnet), test.addresses)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %v: %s, %v; want %q", test.subnet, test.addresses, got, err, test.want)
		}
	}
}

// Whatever a metadata server says, the driver takes what comes of it.
func FuzzSourceRouting(f *testing.F) {
	f.Add(int64(100), "10.9.0.0/24", "10.9.0.4")
	f.Add(int64(0), "0.0.0.0/0", "::1")
	f.Add(int64(-1), "255.255.255.255/32", "255.255.255.255")
	f.Fuzz(func(t *testing.T, table int64, prefix, address string) {
		subnet, err := netip.ParsePrefix(prefix)
		if err != nil {
			return
		}
		a, err := netip.ParseAddr(address)
		if err != nil {
			return
		}
		layer, err := SourceRouting(table, subnet, []netip.Addr{a})
		if err != nil {
			return
		}
		c, err := v1alpha1.DecodeNetworkConfig(layer)
		if err == nil {
			err = c.Validate()
		}
		if err != nil {
			t.Errorf("table %d, subnet %s, address %s: %s: %v", table, prefix, address, layer, err)
		}
	})
}

func TestIndexMAC(t *testing.T) {
	entries := []string{"", "000D3AF806EC", "0e:49:61:0f:c3:11", "00-0d-3a-f8-06-ed"}
	self := func(s string) string { return s }
	for _, test := range []struct {
		name   string
		device Device
		want   int
	}{
		{"without colons, in capitals", Device{MAC: "00:0d:3a:f8:06:ec"}, 1},
		{"with dashes", Device{MAC: "00:0d:3a:f8:06:ed"}, 3},
		{"the permanent one first", Device{MAC: "00:0d:3a:f8:06:ec", PermanentMAC: "0e:49:61:0f:c3:11"}, 2},
		{"the present one after all", Device{MAC: "00:0d:3a:f8:06:ec", PermanentMAC: "02:00:00:00:00:01"}, 1},
		{"no address", Device{Name: "pci-0000-91-00-0"}, -1},
		{"InfiniBand's", Device{MAC: "00:00:10:27:fe:80:00:00:00:00:00:00:00:15:5d:ff:fe:33:ff:fa"}, -1},
		{"no hexadecimal digits", Device{MAC: "0g:00:00:00:00:00"}, -1},
	} {
		if got := IndexMAC(test.device, entries, self); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
