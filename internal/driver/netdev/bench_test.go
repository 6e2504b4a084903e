// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// fabricNICs is what a node with eight GPUs has.
const fabricNICs = 8

func benchLab(b *testing.B) (*lab, *hosttest.Namespace) {
	b.Helper()
	l := &lab{host: hosttest.NewNamespace(b)}
	for i := range fabricNICs {
		l.host.Run(b, fmt.Sprintf(`
			ip link add nic%[1]d address 02:00:00:00:00:0%[1]d type veth peer name port%[1]d
			ip link set port%[1]d up
			ip address add 10.33.%[1]d.2/32 dev nic%[1]d
			ip link set nic%[1]d up
			ip route add 10.33.%[1]d.1 dev nic%[1]d
			ip route add 10.34.%[1]d.0/24 via 10.33.%[1]d.1 dev nic%[1]d`, i))
	}
	l.driver = l.newDriver(b)
	return l, hosttest.NewNamespace(b)
}

// BenchmarkAttachDetach takes eight NICs into a pod and back, all of it.
func BenchmarkAttachDetach(b *testing.B) {
	l, pod := benchLab(b)
	r := l.plan(b, claim("", "nic0", "nic1", "nic2", "nic3", "nic4", "nic5", "nic6", "nic7"))
	for b.Loop() {
		l.attach(b, r, pod)
		if err := l.driver.Detach(b.Context(), r, pod.Path()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkKernelMoves is the floor of that: the kernel's own moves, 16 of them.
func BenchmarkKernelMoves(b *testing.B) {
	l, pod := benchLab(b)
	inside, err := openSide(pod.Path())
	if err != nil {
		b.Fatal(err)
	}
	defer inside.close()
	r := l.plan(b, claim("", "nic0", "nic1", "nic2", "nic3", "nic4", "nic5", "nic6", "nic7"))
	for b.Loop() {
		for _, way := range [][2]*side{{l.driver.host, inside}, {inside, l.driver.host}} {
			for _, d := range r.Devices {
				plan, err := ReadPlan(d)
				if err != nil {
					b.Fatal(err)
				}
				link, err := way[0].find(plan)
				if err == nil {
					err = way[0].conn.Move(link.Index, way[1].namespace.Fd(), rtnl.Change{})
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}
