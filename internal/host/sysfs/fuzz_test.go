// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"net/netip"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
)

// fuzz hands a parser every text that read would hand it, and what it makes of
// the good ones to check.
func fuzz[T any](f *testing.F, parse func(string) (T, error), check func(t *testing.T, text string, v T), seeds ...string) {
	f.Helper()
	for _, s := range append(seeds, "", "-1", "0x", "\xff\xfe", "99999999999999999999", "1\n2") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxAttribute {
			return
		}
		if v, err := parse(text); err == nil {
			check(t, text, v)
		} else if len(err.Error()) > 400 {
			t.Errorf("%.40q...: the error has %d bytes, want one line", text, len(err.Error()))
		}
	})
}

func FuzzCPUList(f *testing.F) {
	fuzz(f, parseCPUList, func(t *testing.T, text string, v cpuset.CPUSet) {
		again, err := parseCPUList(v.String())
		if err != nil || !again.Equals(v) || v.Size() > maxID {
			t.Errorf("%q: %s does not read back", text, v)
		}
	}, "0-55,112-167", "0-4294967295", "3,1", "1-2-3")
}

func FuzzDistances(f *testing.F) {
	fuzz(f, parseDistances, func(t *testing.T, text string, v []int) {
		for _, d := range v {
			if d < 1 || d > 255 {
				t.Errorf("%q: distance %d", text, d)
			}
		}
	}, "10 21", "10", "0 10")
}

func FuzzMemTotal(f *testing.F) {
	fuzz(f, parseMemTotal, func(t *testing.T, text string, v uint64) {
		if v%1024 != 0 || !strings.Contains(text, "MemTotal:") {
			t.Errorf("%q: %d bytes", text, v)
		}
	}, "Node 0 MemTotal:       131072 kB", "Node 0 MemTotal: 18446744073709551615 kB")
}

func FuzzPCIClass(f *testing.F) {
	fuzz(f, parsePCIClass, func(t *testing.T, text string, v uint32) {
		if v > 0xffffff {
			t.Errorf("%q: class %#x", text, v)
		}
	}, "0x020000", "0x1020000", "0x0_2")
}

func FuzzLinkSpeed(f *testing.F) {
	fuzz(f, parseLinkSpeed, func(t *testing.T, text string, v int) {
		if v < 1000 || v > 1024000 {
			t.Errorf("%q: %d MT/s", text, v)
		}
	}, "32.0 GT/s PCIe", "2.5 GT/s", "Unknown", "Inf GT/s", "0x1p4 GT/s")
}

func FuzzNumbers(f *testing.F) {
	fuzz(f, parseID, func(t *testing.T, text string, v int) {
		if v < 0 || v >= maxID {
			t.Errorf("%q: id %d", text, v)
		}
	}, "0", "65535", "65536")
}

func FuzzPositive(f *testing.F) {
	fuzz(f, parsePositive, func(t *testing.T, text string, v int) {
		if v <= 0 {
			t.Errorf("%q: %d", text, v)
		}
	}, "400000", "4294967295")
}

func FuzzMAC(f *testing.F) {
	fuzz(f, parseMAC, func(t *testing.T, text, v string) {
		if v != strings.ToLower(text) || strings.Trim(v, "0123456789abcdef:") != "" {
			t.Errorf("%q: address %q", text, v)
		}
	}, "02:FC:00:00:00:01", "00:00:00:00:00:00")
}

func FuzzPCIPath(f *testing.F) {
	fuzz(f, parsePCIPath, func(t *testing.T, text string, p PCIPath) {
		if p.Path != text || !strings.HasSuffix(text, "/"+p.Address.String()) || !strings.HasPrefix(text, p.RootPath+"/") {
			t.Errorf("%q: %+v", text, p)
		}
		if p.Parent != nil && !strings.Contains(text, "/"+p.Parent.String()+"/") {
			t.Errorf("%q: parent %s is not in it", text, p.Parent)
		}
	}, "devices/pci0000:8c/0000:8c:00.0/0000:8d:00.0", "pci0000:8c/0000:8c:00.0")
}

func FuzzUevent(f *testing.F) {
	f.Add([]byte("add@/devices/x\x00SUBSYSTEM=net\x00"))
	f.Fuzz(func(t *testing.T, message []byte) {
		if concerns(message) && !strings.Contains(string(message), "SUBSYSTEM=") {
			t.Errorf("%q: no subsystem", message)
		}
	})
}

func FuzzGID(f *testing.F) {
	fuzz(f, parseGID, func(t *testing.T, text string, v netip.Addr) {
		if !v.IsValid() || v.IsUnspecified() || v.Is4In6() || v.Zone() != "" {
			t.Errorf("%q: GID %s", text, v)
		}
	}, "0000:0000:0000:0000:0000:ffff:0a00:0001", "fe80:0000:0000:0000:0000:00ff:fe00:0001", "::", "::1%eth0", "10.0.0.1")
}

func FuzzDeviceNumber(f *testing.F) {
	fuzz(f, parseDeviceNumber, func(t *testing.T, text string, v DeviceNumber) {
		if v.Major < 0 || v.Major >= 1<<12 || v.Minor < 0 || v.Minor >= 1<<20 {
			t.Errorf("%q: %d:%d", text, v.Major, v.Minor)
		}
	}, "231:192", "10:122", "4096:0", "231", ":")
}

func FuzzNodeType(f *testing.F) {
	fuzz(f, parseNodeType, func(t *testing.T, text string, v string) {
		if v == "" || strings.Contains(v, "\n") {
			t.Errorf("%q: type %q", text, v)
		}
	}, "1: CA", "4: RNIC", "7: unspecified", "1:")
}
