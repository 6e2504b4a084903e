// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"fmt"
	"strconv"
	"strings"
)

// sentScript prints what each interface of a network namespace has sent, and its address.
const sentScript = `cd /sys/class/net; for i in *; do echo $i $(cat $i/statistics/tx_bytes $i/address); done`

// link is an interface at a moment.
type link struct {
	sent int
	// address is its MAC address.
	address string
}

// readLinks reads what sentScript printed.
func readLinks(out string) (map[string]link, error) {
	links := map[string]link{}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 2 {
			return nil, fmt.Errorf("read the counter of an interface: %q", strings.TrimSpace(line))
		}
		sent, err := strconv.Atoi(words[1])
		if err != nil {
			return nil, fmt.Errorf("read the counter of interface %s: %w", words[0], err)
		}
		l := link{sent: sent}
		if len(words) > 2 {
			l.address = words[2]
		}
		links[words[0]] = l
	}
	return links, nil
}
