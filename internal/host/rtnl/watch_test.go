// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl_test

import (
	"context"
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

func TestSubscribe(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := rtnl.Subscribe(ctx, ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	// Every kind of change is one: a value waits even when many happened.
	for _, change := range []string{
		"ip link add nic0 type veth peer name nic1",
		"ip link set nic0 up",
		"ip address add 10.0.0.1/24 dev nic0",
		"ip address add fd00::1/64 dev nic0",
		"ip route add 10.1.0.0/16 dev nic0",
		"ip -6 route add fd01::/64 dev nic0",
		"ip rule add from 10.0.0.1 table 7",
		"tc qdisc add dev nic0 root handle 7: pfifo limit 7",
		"ip link delete nic0",
	} {
		ns.Run(t, change)
		if _, ok := <-events; !ok {
			t.Fatalf("%s: the subscription ended", change)
		}
	}
	cancel()
	for range events { // ends when the subscription does
	}
}
