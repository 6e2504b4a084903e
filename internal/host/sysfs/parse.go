// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// maxID bounds CPU and node numbers: beyond any kernel's NR_CPUS, small enough
// that a nonsense list costs nothing.
const maxID = 1 << 16

// parseID reads a number that -1 marks as unknown: numa_node, die_id.
func parseID(s string) (int, error) {
	v, err := strconv.Atoi(s)
	switch {
	case err != nil || v < -1 || v >= maxID:
		return 0, fmt.Errorf("parse %q: want a number from 0 to %d, or -1", shorten(s), maxID-1)
	case v == -1:
		return 0, errNoValue
	}
	return v, nil
}

// parseClusterID is parseID, with the 65535 that x86 prints for a CPU without
// a cluster (BAD_APICID, arch/x86).
func parseClusterID(s string) (int, error) {
	v, err := parseID(s)
	if err == nil && v == 65535 {
		return 0, errNoValue
	}
	return v, err
}

// parsePortState reads "4: ACTIVE" (drivers/infiniband/core/sysfs.c, state_show).
func parsePortState(s string) (string, error) {
	number, word, ok := strings.Cut(s, ": ")
	if _, err := strconv.ParseUint(number, 10, 8); err != nil || !ok || word == "" || strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
		return "", fmt.Errorf("parse %q: want a number and a word, such as 4: ACTIVE", shorten(s))
	}
	return word, nil
}

// parseNodeType reads node_type of an RDMA device, such as "1: CA".
func parseNodeType(s string) (string, error) {
	number, word, ok := strings.Cut(s, ": ")
	if _, err := strconv.ParseUint(number, 10, 8); err != nil || !ok || word == "" || strings.Contains(word, "\n") {
		return "", fmt.Errorf("parse %q: want a number and a word, such as 1: CA", shorten(s))
	}
	return word, nil
}

// parseDeviceNumber reads the attribute dev, such as 231:192.
func parseDeviceNumber(s string) (DeviceNumber, error) {
	major, minor, ok := strings.Cut(s, ":")
	a, err := strconv.ParseUint(major, 10, 12)
	b, minorErr := strconv.ParseUint(minor, 10, 20)
	if !ok || err != nil || minorErr != nil {
		return DeviceNumber{}, fmt.Errorf("parse %q: want a major and a minor number, such as 231:192", shorten(s))
	}
	return DeviceNumber{Major: int64(a), Minor: int64(b)}, nil
}

// parseGID reads a GID; one that is zero is none.
func parseGID(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" || !a.Is6() {
		return netip.Addr{}, fmt.Errorf("parse %q: want a GID, such as 0000:0000:0000:0000:0000:ffff:0a00:0001", shorten(s))
	}
	if a.IsUnspecified() {
		return netip.Addr{}, errNoValue
	}
	return a.Unmap(), nil
}

// parseCount reads a number of things.
func parseCount(s string) (int, error) {
	v, err := strconv.ParseInt(s, 10, 32)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("parse %q: want a number from 0", shorten(s))
	}
	return int(v), nil
}

// parsePositive reads a number for which 0, -1 and 4294967295 stand for unknown: speed
// (net/core/net-sysfs.c), current_link_width.
func parsePositive(s string) (int, error) {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < -1 || v > 1<<32-1 {
		return 0, fmt.Errorf("parse %q: want a number", shorten(s))
	}
	if v <= 0 || v >= 1<<31-1 {
		return 0, errNoValue
	}
	return int(v), nil
}

func parseHex16(s string) (uint16, error) {
	v, err := parseHex(s, 16)
	return uint16(v), err
}

// parsePCIClass reads class, such as "0x020000": base class, subclass,
// programming interface.
func parsePCIClass(s string) (uint32, error) {
	v, err := parseHex(s, 24)
	return uint32(v), err
}

func parseHex(s string, bits int) (uint64, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	v, err := strconv.ParseUint(digits, 16, bits)
	if !ok || err != nil {
		return 0, fmt.Errorf("parse %q: want 0x and up to %d hexadecimal digits", shorten(s), bits/4)
	}
	return v, nil
}

// parseLinkSpeed reads current_link_speed and max_link_speed, such as
// "32.0 GT/s PCIe", and returns megatransfers per second. The kernel prints
// "Unknown" or "Unknown speed" where there is no link.
func parseLinkSpeed(s string) (int, error) {
	if strings.HasPrefix(s, "Unknown") {
		return 0, errNoValue
	}
	number, unit, _ := strings.Cut(s, " ")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v >= 1 && v <= 1024) || !strings.HasPrefix(unit, "GT/s") {
		return 0, fmt.Errorf("parse %q: want a speed such as 32.0 GT/s PCIe", shorten(s))
	}
	return int(v*1000 + 0.5), nil
}

// parseCPUList reads the kernel's list format, such as "0-55,112-167"
// (lib/vsprintf.c, bitmap_list_string): ascending, without overlap. It is
// checked before it is expanded, since a few bytes can name billions.
func parseCPUList(s string) (cpuset.CPUSet, error) {
	bad := func() (cpuset.CPUSet, error) {
		return cpuset.New(), fmt.Errorf("parse %q: want an ascending list of numbers below %d, such as 0-3,8", shorten(s), maxID)
	}
	if s == "" {
		return cpuset.New(), nil // the zero CPUSet equals no other empty one
	}
	last := -1
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.ParseUint(from, 10, 16)
		b, errB := strconv.ParseUint(to, 10, 16)
		if errA != nil || errB != nil || int(a) <= last || b < a {
			return bad()
		}
		last = int(b)
	}
	set, err := cpuset.Parse(s)
	if err != nil {
		return bad()
	}
	return set, nil
}

// parseDistances reads node/nodeN/distance: one ACPI SLIT value for each
// online node, in the order of their ids.
func parseDistances(s string) ([]int, error) {
	fields := strings.Fields(s)
	distances := make([]int, 0, len(fields))
	for _, f := range fields {
		v, err := strconv.ParseUint(f, 10, 8)
		if err != nil || v == 0 {
			return nil, fmt.Errorf("parse %q: want distances from 1 to 255", shorten(s))
		}
		distances = append(distances, int(v))
	}
	return distances, nil
}

// parseMemTotal finds "Node 0 MemTotal:  131072 kB" in node/nodeN/meminfo and
// returns bytes.
func parseMemTotal(s string) (uint64, error) {
	for line := range strings.Lines(s) {
		_, rest, found := strings.Cut(line, "MemTotal:")
		if !found {
			continue
		}
		f := strings.Fields(rest)
		if len(f) != 2 || f[1] != "kB" {
			return 0, fmt.Errorf("parse %q: want MemTotal in kB", shorten(strings.TrimSpace(line)))
		}
		kb, err := strconv.ParseUint(f[0], 10, 54)
		if err != nil {
			return 0, fmt.Errorf("parse %q: want MemTotal in kB", shorten(strings.TrimSpace(line)))
		}
		return kb << 10, nil
	}
	return 0, errNoValue
}

// shorten bounds a value for messages.
func shorten(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
