// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/hosttest/bpftest"
)

// Refusals and Prepare agree, for whatever reason a NIC is refused: one that is offered
// is not refused for each claim, and one that is not offered would be.
func TestRefusalsAreThoseOfPrepare(t *testing.T) {
	for name, c := range map[string]struct {
		add  func(t *testing.T, l *lab)
		want string // empty: the NIC may be taken
	}{
		"nothing":                          {add: func(*testing.T, *lab) {}},
		"addresses, routes and neighbours": {add: run(busy)},
		"a rule that names it":             {add: run("ip rule add iif nic0 table 77")},
		"a macvlan":                        {add: run("ip link add x link nic0 type macvlan"), want: "carries macvlan x"},
		"a VXLAN":                          {add: run("ip link add x type vxlan id 1 dstport 4789 dev nic0"), want: "carries vxlan x"},
		"a bridge":                         {add: run("ip link add br0 type bridge\nip link set nic0 master br0"), want: "is a port of br0"},
		"a route through a nexthop object": {
			add:  run("ip link set nic0 up\nip nexthop add id 7 dev nic0\nip route add 10.66.0.0/16 nhid 7"),
			want: "uses a nexthop object",
		},
		"an IPv6 route through a nexthop object": {
			add:  run("ip link set nic0 up\nip -6 nexthop add id 7 dev nic0\nip -6 route add fd66::/64 nhid 7"),
			want: "uses a nexthop object",
		},
		"another's route through a nexthop object": {
			add: run("ip link set nic1 up\nip nexthop add id 7 dev nic1\nip route add 10.66.0.0/16 nhid 7"),
		},
		"another's route with a source of this": {
			add: run("ip link set nic0 up\nip link set nic1 up\nip address add 10.44.0.2/24 dev nic0\n" +
				"ip nexthop add id 7 dev nic1\nip route add 10.66.0.0/16 nhid 7 src 10.44.0.2"),
			want: "uses a nexthop object",
		},
		"an XDP program": {add: func(t *testing.T, l *lab) { l.putXDP(t) }, want: "has an XDP program"},
		"a classful queueing discipline": {
			add: func(t *testing.T, l *lab) {
				l.tc(t, "qdisc add dev nic0 root handle 7: mq", "qdisc add dev nic0 parent 7:1 handle 8: pfifo")
			},
			want: "which could not be restored",
		},
		"a restorable queueing discipline": {add: func(t *testing.T, l *lab) { l.tc(t, "qdisc add dev nic0 root handle 7: pfifo limit 7") }},
		"a name that no record can hold":   {add: run("ip link property add dev nic0 altname odd\xff"), want: "is not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			c.add(t, l)
			nic, err := l.driver.host.LinkByName("nic0")
			if err != nil {
				t.Fatal(err)
			}
			refusals, _, err := l.driver.Refusals([]int{nic.Index})
			if err != nil {
				t.Fatal(err)
			}
			_, refused := l.driver.Plan(claim(`{"interface": {"name": "net1"}}`, "nic0"), l.machine(t), nil)
			before := refusals[nic.Index]
			switch {
			case c.want == "" && (before != nil || refused != nil):
				t.Errorf("refused beforehand: %v; by Prepare: %v; want neither", before, refused)
			case c.want == "":
			case before == nil || refused == nil:
				t.Errorf("refused beforehand: %v; by Prepare: %v; want both with %q", before, refused, c.want)
			case !strings.Contains(before.Error(), c.want) || !strings.HasSuffix(refused.Error(), before.Error()):
				t.Errorf("refused beforehand: %v\nby Prepare: %v\nwant both with %q", before, refused, c.want)
			}
		})
	}
}

// With AllowLoss, NICs with state that would be lost are offered.
func TestRefusalsWhereLossIsAllowed(t *testing.T) {
	l := newLab(t)
	l.putXDP(t)
	l.driver.host.AllowLoss = true
	nic, err := l.driver.host.LinkByName("nic0")
	if err != nil {
		t.Fatal(err)
	}
	refusals, _, err := l.driver.Refusals([]int{nic.Index})
	if err != nil || len(refusals) > 0 {
		t.Errorf("refusals %v, %v, want none", refusals, err)
	}
}

// A program of tc is lost where there is nothing to keep it in.
func TestRefusalsWithoutBPFFileSystem(t *testing.T) {
	l := newLab(t)
	pin := bpftest.FS(t) + "/pin"
	if err := bpftest.Program(t, "tc", ebpf.SchedCLS, -1).Pin(pin); err != nil {
		t.Fatal(err)
	}
	l.tc(t, "qdisc add dev nic0 clsact", "filter add dev nic0 ingress bpf direct-action object-pinned "+pin)
	nic, err := l.driver.host.LinkByName("nic0")
	if err != nil {
		t.Fatal(err)
	}
	for bpffs, want := range map[string]int{"": 1, "/sys/fs/bpf": 0} {
		l.driver.host.BPFFS = bpffs
		refusals, _, err := l.driver.Refusals([]int{nic.Index})
		if err != nil || len(refusals) != want {
			t.Errorf("with file system %q: refusals %v, %v, want %d", bpffs, refusals, err, want)
		}
	}
}

func run(lines string) func(*testing.T, *lab) {
	return func(t *testing.T, l *lab) { l.host.Run(t, lines) }
}

// putXDP lets a program run in the generic hook of nic0.
func (l *lab) putXDP(t *testing.T) {
	t.Helper()
	p := bpftest.Program(t, "xdp", ebpf.XDP, 2)
	nic, err := l.driver.host.LinkByName("nic0")
	if err != nil {
		t.Fatal(err)
	}
	var attached link.Link
	l.host.Do(t, func() error {
		attached, err = link.AttachXDP(link.XDPOptions{Program: p, Interface: nic.Index, Flags: link.XDPGenericMode})
		return err
	})
	t.Cleanup(func() { _ = attached.Close() })
}

// tc runs lines of tc, and skips the test where the kernel lacks what they ask.
func (l *lab) tc(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		var out []byte
		var err error
		l.host.Do(t, func() error {
			out, err = exec.CommandContext(t.Context(), "tc", strings.Fields(line)...).CombinedOutput()
			return nil
		})
		if err != nil && hosttest.OnGuest() {
			t.Fatalf("tc %s: %v: %s", line, err, out)
		}
		if err != nil {
			t.Skipf("tc %s: %v: %s: this kernel lacks it", line, err, out)
		}
	}
}
