// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// parse runs a parser and tells its three outcomes apart.
func parse[T any](p func(string) (T, error), text string) string {
	v, err := p(text)
	switch {
	case errors.Is(err, errNoValue):
		return "unknown"
	case err != nil:
		return "refused"
	}
	return fmt.Sprint(v)
}

func TestParsers(t *testing.T) {
	parsers := map[string]func(string) string{
		"id":       func(s string) string { return parse(parseID, s) },
		"cluster":  func(s string) string { return parse(parseClusterID, s) },
		"count":    func(s string) string { return parse(parseCount, s) },
		"positive": func(s string) string { return parse(parsePositive, s) },
		"hex16":    func(s string) string { return parse(parseHex16, s) },
		"class":    func(s string) string { return parse(parsePCIClass, s) },
		"speed":    func(s string) string { return parse(parseLinkSpeed, s) },
		"cpulist":  func(s string) string { return parse(parseCPUList, s) },
		"distance": func(s string) string { return parse(parseDistances, s) },
		"meminfo":  func(s string) string { return parse(parseMemTotal, s) },
		"port":     func(s string) string { return parse(parsePortState, s) },
		"mac":      func(s string) string { return parse(parseMAC, s) },
	}
	for _, tt := range []struct{ parser, text, want string }{
		{"port", "4: ACTIVE", "ACTIVE"},
		{"port", "5: ACTIVE_DEFER", "ACTIVE_DEFER"},
		{"port", "ACTIVE", "refused"},
		{"port", "4: ", "refused"},
		{"port", "4: \x1b[2J", "refused"},
		{"id", "0", "0"},
		{"id", "-1", "unknown"},
		{"id", "65536", "refused"},
		{"id", "one", "refused"},
		{"cluster", "65535", "unknown"},
		{"cluster", "3", "3"},
		{"count", "0", "0"},
		{"count", "-1", "refused"},
		{"count", "4294967296", "refused"},
		{"positive", "400000", "400000"},
		{"positive", "-1", "unknown"},
		{"positive", "0", "unknown"},
		{"positive", "4294967295", "unknown"}, // -1 printed unsigned before Linux 5.x
		{"positive", "fast", "refused"},
		{"hex16", "0x15b3", "5555"},
		{"hex16", "15b3", "refused"},
		{"hex16", "0x115b3", "refused"},
		{"class", "0x020000", "131072"},
		{"class", "0x1020000", "refused"},
		{"speed", "2.5 GT/s PCIe", "2500"},
		{"speed", "32.0 GT/s PCIe", "32000"},
		{"speed", "8 GT/s", "8000"}, // before Linux 5.x
		{"speed", "Unknown", "unknown"},
		{"speed", "Unknown speed", "unknown"},
		{"speed", "NaN GT/s", "refused"},
		{"speed", "1e300 GT/s", "refused"},
		{"speed", "-5.0 GT/s PCIe", "refused"},
		{"speed", "32.0", "refused"},
		{"cpulist", "", ""},
		{"cpulist", "0-3,8", "0-3,8"},
		{"cpulist", "0-55,112-167", "0-55,112-167"},
		{"cpulist", "3-1", "refused"},
		{"cpulist", "4,2", "refused"},
		{"cpulist", "0-3,3", "refused"},
		{"cpulist", "0-4294967295", "refused"},
		{"cpulist", "0-3:1/2", "refused"},
		{"cpulist", "0,,2", "refused"},
		{"distance", "10 21", "[10 21]"},
		{"distance", "10 -1", "refused"},
		{"distance", "10 300", "refused"},
		{"meminfo", "Node 0 MemTotal:       131072 kB\nNode 0 MemFree: 1 kB", "134217728"},
		{"meminfo", "Node 0 MemFree: 1 kB", "unknown"},
		{"meminfo", "Node 0 MemTotal: 12 MB", "refused"},
		{"meminfo", "Node 0 MemTotal: 99999999999999999999 kB", "refused"},
		{"mac", "02:FC:00:00:00:01", "02:fc:00:00:00:01"},
		{"mac", "00:00:00:00:00:00", "unknown"},
		{"mac", "02:fc:0", "refused"},
		{"mac", "+2:fc", "refused"},
	} {
		if got := parsers[tt.parser](tt.text); got != tt.want {
			t.Errorf("%s %q: got %s, want %s", tt.parser, tt.text, got, tt.want)
		}
	}
}

func TestRefusalsStayShort(t *testing.T) {
	giant := strings.Repeat("9", maxAttribute)
	_, err := parseCPUList(giant)
	if err == nil || len(err.Error()) > 200 {
		t.Errorf("a value of %d digits: got an error of %d bytes, want one line", len(giant), len(err.Error()))
	}
}

func TestPCIPath(t *testing.T) {
	for _, tt := range []struct{ dir, want string }{
		{
			"devices/pci0000:8c/0000:8c:00.0/0000:8d:00.0",
			"0000:8d:00.0 root pci0000:8c at devices/pci0000:8c below 0000:8c:00.0",
		},
		{
			"devices/pci0000:00/0000:00:03.0",
			"0000:00:03.0 root pci0000:00 at devices/pci0000:00 below the root",
		},
		{
			"devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/00000001-8c4f-4fa0-8f3c-000000000001/pci0001:00/0001:00:00.0",
			"0001:00:00.0 root pci0001:00 at devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/00000001-8c4f-4fa0-8f3c-000000000001/pci0001:00 below the root",
		},
		{ // a drive behind an Intel VMD
			"devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0",
			"10000:e1:00.0 root pci0000:00 at devices/pci0000:00 below 10000:e0:06.0",
		},
		{"devices/platform/0000:00:03.0", "refused"},
		{"devices/pci0000:00/virtio0", "refused"},
		{"devices/pci0000:00", "refused"},
		{"devices/pciBUS:00/0000:00:03.0", "refused"},
		{"0000:00:03.0", "refused"},
	} {
		got := "refused"
		if p, err := parsePCIPath(tt.dir); err == nil {
			parent := "the root"
			if p.Parent != nil {
				parent = p.Parent.String()
			}
			got = fmt.Sprintf("%s root %s at %s below %s", p.Address, p.Root, p.RootPath, parent)
		}
		if got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.dir, got, tt.want)
		}
	}
}
