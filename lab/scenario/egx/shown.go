// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package egx

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// shownLink is what "ip addr show dev net1" says of a link.
type shownLink struct {
	name    string
	flags   []string
	mtu     int
	address netip.Prefix
}

// firstLine is such as "5: net1@if24: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc noqueue".
var firstLine = regexp.MustCompile(`^\d+: ([^@:]+)(?:@\S+)?: <([^>]*)> mtu (\d+) `)

func parseLink(out string) (shownLink, error) {
	m := firstLine.FindStringSubmatch(out)
	if m == nil {
		return shownLink{}, fmt.Errorf("read what ip shows: %q", out)
	}
	l := shownLink{name: m[1], flags: strings.Split(m[2], ",")}
	l.mtu, _ = strconv.Atoi(m[3]) // digits
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "inet" {
			continue
		}
		if l.address.IsValid() {
			return l, fmt.Errorf("read what ip shows: a second address in %q", out)
		}
		var err error
		if l.address, err = netip.ParsePrefix(words[1]); err != nil {
			return l, fmt.Errorf("read what ip shows: %w", err)
		}
	}
	return l, nil
}

// asPrinted says whether the link is as the article prints it: up, of the network's MTU,
// with an address of the network and its prefix.
func (l shownLink) asPrinted() bool {
	return l.name == ifname && l.mtu == articleMTU &&
		slices.Contains(l.flags, "UP") && slices.Contains(l.flags, "LOWER_UP") &&
		l.address.IsValid() && l.address.Masked() == network && l.address.Addr() != network.Addr()
}
