// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"testing"
	"time"

	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/hosttest/manylinks"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
)

// heard tells when slices are written.
type heard chan time.Time

func (h heard) PublishResources(context.Context, resourceslice.DriverResources) error {
	h <- time.Now()
	return nil
}

func (h heard) Stop() {}

// calm is longer than the inventory and the publisher rest between two changes.
const calm = time.Second

// leastRounds give a median worth the name.
const leastRounds = 9

// BenchmarkReaction is how long it takes from a change of a NIC, on a host with
// a thousand other links, to the slice that says so, which is handed to the
// library that writes it. The naive way, in the same run, hears of the change
// as fast, and looks at each link for itself.
func BenchmarkReaction(b *testing.B) {
	host := manylinks.New(b)
	host.Run(b, "ip link add nic0 type veth peer name far0")
	conn, err := rtnl.Dial(host.Fd())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(conn.Close)
	nic, err := conn.LinkByName("nic0")
	if err != nil || nic == nil {
		b.Fatal("no nic0: ", err)
	}
	change := func(round int) time.Time {
		mtu := 1400 + round
		start := time.Now()
		if err := conn.Set(nic.Index, rtnl.Change{Settings: rtnl.Settings{MTU: &mtu}}); err != nil {
			b.Fatal(err)
		}
		return start
	}
	written := published(b, host)
	var ours []time.Duration
	round := func() {
		time.Sleep(calm)
		start := change(len(ours))
		ours = append(ours, (<-written).Sub(start))
	}
	for b.Loop() {
		round()
	}
	for len(ours) < leastRounds {
		round()
	}
	took := hosttest.Median(ours)
	b.ReportMetric(float64(took), "ns/op")
	b.ReportMetric(float64(took)/float64(manylinks.LookNaively(b, conn)), "x-naive")
}

// published is the agent's loop with the one NIC on it, after its first write.
func published(b *testing.B, host *hosttest.Namespace) heard {
	b.Helper()
	links, err := inventory.OpenNetlink(host.Fd(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(links.Close)
	scans := inventory.Watch(b.Context(), inventory.Sources{Sys: sysOf(b, host), Links: links}, inventory.Options{
		Virtual: func(i model.Interface) bool { return i.Name == "nic0" },
	}, time.Hour)
	ctx := klog.NewContext(b.Context(), klog.Logger{})
	written := make(heard, 1)
	at := &Publisher{Driver: "dra.net", Pool: "node1", Helper: written, writeInterval: calm / 2}
	l := &Loop{MergedMachine: &MergedMachine{}, Publishers: []*Publisher{at}, Scans: scans, Held: (&records{}).list}
	if err := l.Take(ctx, <-scans); err != nil {
		b.Fatal(err)
	}
	go l.Run(ctx)
	<-written
	return written
}
