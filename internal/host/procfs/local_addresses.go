// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"bufio"
	"encoding/hex"
	"io"
	"net/netip"
	"strings"
)

// LocalAddresses adds the IPv4 addresses of a network namespace, from
// /proc/PID/net/fib_trie: nodes of the trie, each with the kinds of its routes below it
// (net/ipv4/fib_trie.c, fib_trie_seq_show).
func LocalAddresses(text io.Reader, addresses map[netip.Addr]bool) error {
	lines := bufio.NewScanner(text)
	var node netip.Addr
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) == 2 && f[0] == "|--":
			// What is no address leaves none to the routes below.
			node, _ = netip.ParseAddr(f[1])
		case len(f) >= 3 && f[0] == "/32" && f[1] == "host" && f[2] == "LOCAL" && node.Is4():
			addresses[node] = true
		}
	}
	return lines.Err()
}

// LocalIPv6Addresses adds the IPv6 ones, from /proc/PID/net/if_inet6.
func LocalIPv6Addresses(text io.Reader, addresses map[netip.Addr]bool) error {
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		// address, index, length of the prefix, scope, flags, interface
		f := strings.Fields(lines.Text())
		if len(f) < 6 {
			continue
		}
		raw, err := hex.DecodeString(f[0])
		if a, ok := netip.AddrFromSlice(raw); err == nil && ok && a.Is6() {
			addresses[a.Unmap()] = true
		}
	}
	return lines.Err()
}
