// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package manylinks gives benchmarks a namespace with as many links as a full node
// has, and the naive way to read them, for comparison. Only tests import it.
package manylinks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Count is how many links New makes, loopback among them.
const Count = 1001

// New makes a namespace with veth0 to veth499, and peer0 to peer499 at their
// other ends, each up and with an address of its own.
func New(t testing.TB) *hosttest.Namespace {
	t.Helper()
	var commands strings.Builder
	commands.WriteString("ip link set lo up\n")
	for i := range (Count - 1) / 2 {
		fmt.Fprintf(&commands, "ip link add veth%d type veth peer name peer%d\n", i, i)
		for side, name := range []string{"veth", "peer"} {
			fmt.Fprintf(&commands, "ip address add 10.%d.%d.%d/32 dev %s%d\nip link set %s%d up\n", side, i/250, i%250, name, i, name, i)
		}
	}
	ns := hosttest.NewNamespace(t)
	ns.Run(t, commands.String())
	return ns
}

// LookNaively is how long it takes to dump for each link what can be dumped once for
// all: the addresses, and the queueing disciplines.
func LookNaively(t testing.TB, conn *rtnl.Conn) time.Duration {
	t.Helper()
	start := time.Now()
	links, err := conn.Links()
	if err != nil || len(links) < Count {
		t.Fatalf("%d links, want %d: %v", len(links), Count, err)
	}
	for _, link := range links {
		if _, err := conn.Prefixes(); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Queueing(link.Index); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(start)
}
