// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"fmt"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
)

// Memory is a size for people: "96 GiB", "1.5 TiB".
func Memory(mib *uint64) string {
	if mib == nil {
		return ""
	}
	v := float64(*mib)
	for _, unit := range []string{"MiB", "GiB"} {
		if v < 1024 {
			return trimZero(v) + " " + unit
		}
		v /= 1024
	}
	return trimZero(v) + " TiB"
}

// trimZero prints three digits at most, without a useless ".0".
func trimZero(v float64) string {
	if v >= 10 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// Text is "32 GT/s x16", with times for the x; "" for no link.
func (l *Link) Text(times string) string {
	if l == nil {
		return ""
	}
	var parts []string
	if l.MTs > 0 {
		parts = append(parts, strconv.FormatFloat(float64(l.MTs)/1000, 'f', -1, 64)+" GT/s")
	}
	if l.Width > 0 {
		parts = append(parts, times+strconv.Itoa(l.Width))
	}
	return strings.Join(parts, " ")
}

// NetworkSpeed is "400 Gbit/s".
func NetworkSpeed(mbps int) string {
	switch {
	case mbps <= 0:
		return ""
	case mbps < 1000:
		return strconv.Itoa(mbps) + " Mbit/s"
	}
	return strconv.FormatFloat(float64(mbps)/1000, 'f', -1, 64) + " Gbit/s"
}

// KindLabel is the word for a device's kind.
func KindLabel(kind string) string {
	switch kind {
	case KindGPU:
		return "GPU"
	case KindNIC:
		return "NIC"
	case KindAccelerator:
		return "accel"
	case KindStorage:
		return "disk"
	case KindNetwork:
		return "net"
	}
	return kind
}

// Label is "socket 0", "sockets 0, 1", or "socket unknown".
func (s Socket) Label() string {
	switch len(s.IDs) {
	case 0:
		return "socket unknown"
	case 1:
		return "socket " + strconv.Itoa(s.IDs[0])
	}
	ids := make([]string, len(s.IDs))
	for i, id := range s.IDs {
		ids[i] = strconv.Itoa(id)
	}
	return "sockets " + strings.Join(ids, ", ")
}

// CPUText is "CPUs 0-55,112-167 (56 cores, 112 threads)".
func (n *Node) CPUText() string {
	switch {
	case n.CPUCount == 0:
		return "no CPUs known"
	case n.CPUs == "":
		return plural.Count(n.CPUCount, "CPU", "CPUs")
	}
	if len(n.Cores) > 0 && len(n.Cores) < n.CPUCount {
		return fmt.Sprintf("CPUs %s (%s, %s)", n.CPUs, plural.Count(len(n.Cores), "core", "cores"), plural.Count(n.CPUCount, "thread", "threads"))
	}
	return fmt.Sprintf("CPUs %s (%d)", n.CPUs, n.CPUCount)
}

// Joined puts the separator between the parts that say something.
func Joined(separator string, parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, separator)
}

// Headline counts what the machine has.
func (t *Topology) Headline(separator string) string {
	c := t.Counts
	parts := []string{printable.Text(t.Architecture)}
	for _, one := range []struct {
		n         int
		one, many string
	}{
		{c.Sockets, "socket", "sockets"},
		{c.NUMANodes, "NUMA node", "NUMA nodes"},
		{c.CPUs, "CPU", "CPUs"},
		{c.GPUs, "GPU", "GPUs"},
		{c.Accelerators, "accelerator", "accelerators"},
		{c.NICs, "NIC", "NICs"},
		{c.Roots, "PCIe root", "PCIe roots"},
	} {
		if one.n > 0 {
			parts = append(parts, plural.Count(one.n, one.one, one.many))
		}
	}
	return Joined(separator, parts...)
}
