// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"strconv"
	"strings"
)

// ParseVLANs reads the vlans of a network namespace and their tags, by name, as
// net/8021q/vlanproc.c writes /proc/net/vlan/config:
//
//	VLAN Dev name	 | VLAN ID
//	Name-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD
//	net1           | 100  | ens2f0
func ParseVLANs(text []byte) map[string]int {
	tags := map[string]int{}
	for line := range strings.Lines(string(text)) {
		// No name has a blank, one may have a bar, and a long one has no blank behind it.
		fields := strings.Fields(line)
		n := len(fields)
		if n < 4 || fields[n-2] != "|" {
			continue
		}
		name, bar := strings.CutSuffix(strings.Join(fields[:n-3], ""), "|")
		if tag, err := strconv.ParseUint(fields[n-3], 10, 12); err == nil && bar && name != "" {
			tags[name] = int(tag)
		}
	}
	return tags
}
