// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"strconv"
	"strings"
)

// Text is the room in words: "7 more GPU+NIC pairs by PCIe root, 1 more group
// of 4". known says that the holders are known; without them it is what the
// machine has when nobody holds anything. Empty where there are no pairs.
func (r *Room) Text(known bool) string {
	if r.PairedBy == "" {
		return ""
	}
	by := "by PCIe root"
	switch r.PairedBy {
	case ByNode:
		by = "by NUMA node"
	case ByEither:
		by = "by PCIe root or NUMA node"
	}
	parts := []string{amount(r.Pairs.Free, known, "GPU+NIC pair", "GPU+NIC pairs") + " " + by}
	for _, g := range r.Groups {
		size := strconv.Itoa(g.Size)
		text := amount(g.Free, known, "group of "+size, "groups of "+size)
		if g.Within == ByMachine {
			text += " over NUMA nodes"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func amount(n int, more bool, one, many string) string {
	text := Count(n, one, many)
	if n == 0 {
		return "no " + one
	}
	if more {
		number, rest, _ := strings.Cut(text, " ")
		return number + " more " + rest
	}
	return text
}

// StrandedText names the stranded devices, "" for none.
func (r *Room) StrandedText() string {
	if len(r.Stranded) == 0 {
		return ""
	}
	names := make([]string, len(r.Stranded))
	for i, name := range r.Stranded {
		names[i] = Printable(name)
	}
	return strings.Join(names, ", ")
}
