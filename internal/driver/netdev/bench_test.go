// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// BenchmarkAttachOne and the others take what a node with one and with eight
// fabric NICs has into a pod and back. Beside each the kernel's own floor is
// measured, in turns: a move, which sets the link down and renames it, and an
// up for each NIC, on sockets that are open already.
func BenchmarkAttachOne(b *testing.B)   { benchmark(b, 1, true) }
func BenchmarkAttachEight(b *testing.B) { benchmark(b, 8, true) }
func BenchmarkDetachOne(b *testing.B)   { benchmark(b, 1, false) }
func BenchmarkDetachEight(b *testing.B) { benchmark(b, 8, false) }

// leastRounds are enough for a stable median: most of a move is waiting for an RCU grace
// period (synchronize_net), whose length varies.
const leastRounds = 25

func benchmark(b *testing.B, nics int, attach bool) {
	c := newCourse(b, nics)
	var ours, floor []time.Duration
	round := func() {
		// Each goes first every other time, from a host that was just made what
		// it was: what one leaves to the kernel to do must not cost the other.
		var in, out, there, back time.Duration
		if len(ours)%2 == 0 {
			there, back = c.floor(b)
			in, out = c.driven(b)
		} else {
			in, out = c.driven(b)
			there, back = c.floor(b)
		}
		if attach {
			ours, floor = append(ours, in), append(floor, there)
		} else {
			ours, floor = append(ours, out), append(floor, back)
		}
	}
	for b.Loop() {
		round()
	}
	for len(ours) < leastRounds {
		round()
	}
	spent := c.counts[attach]
	b.ReportMetric(float64(hosttest.Median(ours)), "ns/op")
	ratio := float64(hosttest.Median(ours)) / float64(hosttest.Median(floor))
	b.ReportMetric(ratio, "x-floor")
	b.ReportMetric(ratio, "of-floor") // a figure of its own, with a target
	for unit, n := range map[string]int64{
		"sockets":  spent.Sockets,
		"setns":    spent.Setns,
		"messages": spent.Messages,
	} {
		b.ReportMetric(float64(n)/float64(len(ours)), unit)
	}
}

// childPause is how long a round waits for the kernel to be done with the one before it: a link
// that was deleted is freed later.
const childPause = 20 * time.Millisecond

// BenchmarkAttachChild gives a pod a link of its own on a shared NIC, by turns with what the
// kernel takes for one: a request that makes it in the pod's namespace, and an up. A host has
// few links, or one for each of many pods.
func BenchmarkAttachChild(b *testing.B) {
	for _, others := range []int{0, 250} {
		b.Run(fmt.Sprintf("links=%d", others), func(b *testing.B) { attachChild(b, others) })
	}
}

func attachChild(b *testing.B, others int) {
	hosttest.NeedLink(b, "macvlan")
	l := &lab{host: hosttest.NewNamespace(b)}
	pod := hosttest.NewNamespace(b)
	for i := range others / 2 {
		l.host.Run(b, fmt.Sprintf("ip link add pod%[1]d type veth peer name far%[1]d", i))
	}
	l.host.Run(b, `
		ip link add nic0 type veth peer name port0
		ip link set port0 up
		ip link set nic0 up`)
	l.driver = l.newDriver(b)
	record, err := l.planShare(b, model.Share{Type: model.ShareMacvlan, Slots: 4}, shareOf("a", `{"interface": {"name": "net1"}}`, "nic0"))
	if err != nil {
		b.Fatal(err)
	}
	plan, err := ReadPlan(record.Devices[0])
	if err != nil {
		b.Fatal(err)
	}
	host, in := open(b, l.host.Path()), open(b, pod.Path())
	parent, err := host.LinkByName("nic0")
	if err != nil || parent == nil {
		b.Fatal(parent, err)
	}
	driven := func() time.Duration {
		start := time.Now()
		_, err := l.driver.Attach(b.Context(), record, pod.Path())
		took := time.Since(start)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.driver.Detach(b.Context(), record, pod.Path()); err != nil {
			b.Fatal(err)
		}
		return took
	}
	bare := func() time.Duration {
		up := true
		start := time.Now()
		err := host.CreateChild(parent.Index, in.Fd(), "net1", plan.Child.Child, nil, plan.Pod.Settings.MAC)
		link, found := in.LinkByName("net1")
		if err = errors.Join(err, found); err != nil || link == nil {
			b.Fatal(link, err)
		}
		if err := in.Set(link.Index, rtnl.Change{Up: &up}); err != nil {
			b.Fatal(err)
		}
		took := time.Since(start)
		if err := in.DeleteLink(link.Index); err != nil {
			b.Fatal(err)
		}
		return took
	}
	var ours, floor []time.Duration
	round := func() {
		var a, z time.Duration
		if len(ours)%2 == 0 {
			z, a = bare(), driven()
		} else {
			a, z = driven(), bare()
		}
		ours, floor = append(ours, a), append(floor, z)
		time.Sleep(childPause)
	}
	for b.Loop() {
		round()
	}
	for len(ours) < leastRounds {
		round()
	}
	b.ReportMetric(float64(hosttest.Median(ours)), "ns/op")
	b.ReportMetric(float64(hosttest.Median(ours))/float64(hosttest.Median(floor)), "of-floor")
}

// course is a host with fabric NICs, a pod, and sockets in both.
type course struct {
	*lab
	pod         *hosttest.Namespace
	there, back *nslink.NetNSConn
	record      driver.Record
	plans       []Plan
	counts      map[bool]rtnl.Counts
}

func newCourse(b *testing.B, nics int) *course {
	b.Helper()
	c := &course{lab: &lab{host: hosttest.NewNamespace(b)}, pod: hosttest.NewNamespace(b), counts: map[bool]rtnl.Counts{}}
	var names []string
	for i := range nics {
		names = append(names, fmt.Sprintf("nic%d", i))
		c.host.Run(b, fmt.Sprintf(`
			ip link add nic%[1]d address 02:00:00:00:00:0%[1]d type veth peer name port%[1]d
			ip link set port%[1]d up
			ip address add 10.33.%[1]d.2/32 dev nic%[1]d
			ip link set nic%[1]d up
			ip route add 10.33.%[1]d.1 dev nic%[1]d
			ip route add 10.34.%[1]d.0/24 via 10.33.%[1]d.1 dev nic%[1]d`, i))
	}
	c.driver = c.newDriver(b)
	c.record = c.plan(b, claim("", names...))
	var err error
	if c.plans, err = plansOf(c.record); err != nil {
		b.Fatal(err)
	}
	c.there, c.back = open(b, c.pod.Path()), open(b, c.host.Path())
	return c
}

func open(b *testing.B, path string) *nslink.NetNSConn {
	b.Helper()
	s, err := nslink.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return s
}

// floor moves the NICs by the kernel's own means, there and back.
func (c *course) floor(b *testing.B) (there, back time.Duration) {
	b.Helper()
	c.reset(b)
	return c.move(b, c.back, c.there), c.move(b, c.there, c.back)
}

func (c *course) move(b *testing.B, from, to *nslink.NetNSConn) time.Duration {
	b.Helper()
	links, err := from.Links()
	if err != nil {
		b.Fatal(err)
	}
	var index []int
	for _, plan := range c.plans {
		link, err := plan.identity().Find(links)
		if err != nil || link == nil {
			b.Fatal("no link", err)
		}
		index = append(index, link.Index)
	}
	up := true
	start := time.Now()
	for i, plan := range c.plans {
		if err := from.Move(index[i], to.Fd(), rtnl.Change{Name: &plan.Host.Name}); err != nil {
			b.Fatal(err)
		}
		// The index stays where nothing else has it.
		if err := to.Set(index[i], rtnl.Change{Up: &up}); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

// reset makes the host what it was; it changes nothing where it is.
func (c *course) reset(b *testing.B) {
	b.Helper()
	if err := c.driver.Detach(b.Context(), c.record, ""); err != nil {
		b.Fatal(err)
	}
}

// driven is floor by the driver.
func (c *course) driven(b *testing.B) (in, out time.Duration) {
	b.Helper()
	c.reset(b)
	in = c.measure(b, true, func() error {
		_, err := c.driver.Attach(b.Context(), c.record, c.pod.Path())
		return err
	})
	out = c.measure(b, false, func() error {
		return c.driver.Detach(b.Context(), c.record, c.pod.Path())
	})
	return in, out
}

func (c *course) measure(b *testing.B, attach bool, do func() error) time.Duration {
	b.Helper()
	before := c.driver.Counts()
	start := time.Now()
	err := do()
	took := time.Since(start)
	if err != nil {
		b.Fatal(err)
	}
	after := c.driver.Counts()
	c.counts[attach] = c.counts[attach].Add(rtnl.Counts{
		Sockets: after.Sockets - before.Sockets, Setns: after.Setns - before.Setns, Messages: after.Messages - before.Messages,
	})
	return took
}
