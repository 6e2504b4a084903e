// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"context"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

func TestUevents(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	ctx, cancel := context.WithCancel(t.Context())
	var events <-chan struct{}
	ns.Do(t, func() (err error) {
		events, err = SubscribeUevents(ctx)
		return err
	})
	ns.Run(t, "ip link add new0 type veth peer name new1")
	select {
	case _, open := <-events:
		if !open {
			t.Fatal("the channel was closed, want an event")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("no event for a new interface")
	}
	cancel()
	for range events { // ends when the socket is closed
	}
}

func TestConcerns(t *testing.T) {
	for message, want := range map[string]bool{
		"add@/devices/virtual/infiniband/rxe0\x00ACTION=add\x00SUBSYSTEM=infiniband\x00SEQNUM=1\x00": true,
		"change@/devices/virtual/block/loop0\x00SUBSYSTEM=block\x00":                                 false,
		"add@/module/x\x00": false,
		"":                  false,
		"online@/devices/system/cpu/cpu5\x00SUBSYSTEM=cpu\x00": true,
		"SUBSYSTEM=pci":       true,
		"x\x00SUBSYSTEM=\x00": false,
	} {
		if got := concerns([]byte(message)); got != want {
			t.Errorf("%q: got %v, want %v", message, got, want)
		}
	}
}
