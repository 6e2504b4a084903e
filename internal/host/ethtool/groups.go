// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"maps"
	"slices"
	"strings"
)

// groups are the short and long names of ethtool(8) for what were single flags
// once, and the kernel's features that they stand for.
var groups = map[string]string{
	"rx":                           "rx-checksum",
	"rx-checksumming":              "rx-checksum",
	"tx":                           "tx-checksum-*",
	"tx-checksumming":              "tx-checksum-*",
	"sg":                           "tx-scatter-gather*",
	"scatter-gather":               "tx-scatter-gather*",
	"tso":                          "tx-tcp*-segmentation",
	"tcp-segmentation-offload":     "tx-tcp*-segmentation",
	"ufo":                          "tx-udp-fragmentation",
	"udp-fragmentation-offload":    "tx-udp-fragmentation",
	"gso":                          "tx-generic-segmentation",
	"generic-segmentation-offload": "tx-generic-segmentation",
	"gro":                          "rx-gro",
	"generic-receive-offload":      "rx-gro",
	"lro":                          "rx-lro",
	"large-receive-offload":        "rx-lro",
	"rxvlan":                       "rx-vlan-hw-parse",
	"rx-vlan-offload":              "rx-vlan-hw-parse",
	"txvlan":                       "tx-vlan-hw-insert",
	"tx-vlan-offload":              "tx-vlan-hw-insert",
	"ntuple":                       "rx-ntuple-filter",
	"ntuple-filters":               "rx-ntuple-filter",
	"rxhash":                       "rx-hashing",
	"receive-hashing":              "rx-hashing",
}

// matches compares a name with a pattern of at most one star.
func matches(pattern, name string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	return len(name) >= len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

func sortedKeys[M ~map[string]V, V any](m M) []string { return slices.Sorted(maps.Keys(m)) }
