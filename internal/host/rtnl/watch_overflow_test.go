// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// A receive buffer that overflows ends the subscription: the channel is closed.
func TestOverflowEndsTheSubscription(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	ns.Run(t, "ip link add nic0 type veth peer name nic1")
	// The kernel rounds up to its minimum, which holds one or two events.
	events, err := SubscribeBuffer(t.Context(), ns.Fd(), 1)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	links, err := conn.Links()
	if err != nil {
		t.Fatal(err)
	}
	index := links[len(links)-1].Index
	for i := 0; ; i++ {
		select {
		case _, ok := <-events:
			if !ok {
				return
			}
		default:
		}
		mtu := 1000 + i%100
		if err := conn.Set(index, Change{Settings: Settings{MTU: &mtu}}); err != nil {
			t.Fatal(err)
		}
	}
}
