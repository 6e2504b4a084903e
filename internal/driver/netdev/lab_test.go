// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// lab is a host of namespaces: nic0, nic1 and nic2 are ends of veth pairs whose
// other ends are in a switch's namespace. Nothing of it is the real host's.
type lab struct {
	host, fabric *hosttest.Namespace
	driver       *Driver
	// rdma is its RDMA subsystem, with an RDMA device on nic0; nil for the kernel's own.
	rdma *fakeRDMA
	// pf is the driver of a physical function; nil for the kernel's own.
	pf *fakePF
}

// quiet keeps duplicate address detection from changing flags over time.
const quiet = `
	sysctl -q -w net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0
	ip link set lo up`

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{host: hosttest.NewNamespace(t), fabric: hosttest.NewNamespace(t)}
	l.fabric.Run(t, quiet)
	l.host.Run(t, quiet)
	for i := range 3 {
		l.host.Run(t, fmt.Sprintf(`
			ip link add nic%[1]d address 02:00:00:00:00:0%[1]d numtxqueues 4 numrxqueues 4 type veth peer name port%[1]d
			ip link set port%[1]d netns /proc/%[2]d/fd/%[3]d up`, i, pid(), l.fabric.Fd()))
	}
	l.driver = l.newDriver(t)
	return l
}

// newDriver is the driver of an agent that has just started.
func (l *lab) newDriver(t testing.TB) *Driver {
	t.Helper()
	o := Options{Host: l.host.Path(), BootID: "boot", Sys: fstest.MapFS{}}
	if l.pf != nil {
		o.Sys = l.pf.tree(t)
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if l.rdma != nil {
		d.rdma = *l.rdma
		d.host.OnChange(func() { l.rdma.endSoftware(t, d.host.Fd()) })
	}
	if l.pf != nil {
		d.host.VFs = l.pf
	}
	return d
}

// readOne reads one NIC on the host by a look of its own.
func readOne(d *Driver, id nslink.Identity) (*hoststate.HostNIC, error) {
	snapshot, err := d.host.Snapshot()
	if err != nil {
		return nil, err
	}
	return snapshot.Read(id)
}

// machine is what an inventory of the lab's host would say.
func (l *lab) machine(t testing.TB) *model.Machine {
	t.Helper()
	links, err := l.driver.host.Links()
	if err != nil {
		t.Fatal(err)
	}
	var parts model.Machine
	for _, link := range links {
		if strings.HasPrefix(link.Name, "nic") {
			nic := model.NIC{Interface: &model.Interface{
				Name: link.Name, Index: link.Index, MAC: link.MAC, Kind: link.Kind, Virtual: true,
			}}
			if l.rdma != nil && link.Name == "nic0" {
				nic.RDMA = &model.RDMADevice{Name: "mlx5_0", Software: l.rdma.isSoftware(t, "mlx5_0")}
			}
			parts.NICs = append(parts.NICs, nic)
		}
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// claim asks for NICs with the same parameters.
func claim(parameters string, devices ...string) driver.Claim {
	c := driver.Claim{
		ClaimRef: driver.ClaimRef{UID: types.UID("uid-" + strings.Join(devices, "-")), Namespace: "default", Name: "claim"},
		Pods:     []driver.PodRef{{UID: "pod", Name: "trainer"}},
	}
	for _, d := range devices {
		a := driver.Allocation{Request: "nic", Pool: "node", Device: d}
		if parameters != "" {
			a.Configs = []driver.Config{{Source: "claim", Raw: []byte(parameters)}}
		}
		c.Devices = append(c.Devices, a)
	}
	return c
}

func (l *lab) plan(t testing.TB, c driver.Claim) driver.Record {
	t.Helper()
	r, err := l.driver.Plan(c, l.machine(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (l *lab) attach(t testing.TB, r driver.Record, pod *hosttest.Namespace) []driver.DeviceStatus {
	t.Helper()
	s, err := l.driver.Attach(t.Context(), r, pod.Path())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// look is a namespace's configuration as an operator sees it, once it stays the
// same: the kernel follows a link's carrier in its own time.
func look(t *testing.T, ns *hosttest.Namespace) string {
	t.Helper()
	last, same := "", 0
	for same < 3 {
		text := lookOnce(t, ns)
		if text == last {
			same++
		} else {
			last, same = text, 0
		}
		time.Sleep(15 * time.Millisecond)
	}
	return last
}

// expect compares a namespace with what it shall look like, when it settles.
func expect(t *testing.T, what, want string, ns *hosttest.Namespace) {
	t.Helper()
	got := lookOnce(t, ns)
	for range 100 {
		if got == want {
			return
		}
		time.Sleep(20 * time.Millisecond)
		got = lookOnce(t, ns)
	}
	t.Errorf("%s (-want +got):\n%s", what, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
}

func lookOnce(t *testing.T, ns *hosttest.Namespace) string {
	t.Helper()
	text := ns.Run(t, `
		ip -o -d link show
		ip -o -d address show
		ip -o -d route show table all
		ip -o -d neighbour show nud permanent
		ip -o -d neighbour show proxy
		ip -o -d token list
		ip -o -d maddr show
		bridge fdb show`)
	// The ifindex may change when a link moves, in its own line and in others'
	// "nic0@if7"; the carrier comes and goes with the other end; IPv6's
	// multicast routes are the kernel's, and so are the groups that nobody made
	// static. A pod's further addresses are counted until the link is up again
	// (net/core/dev.c, __dev_set_rx_mode).
	joined := regexp.MustCompile(`^(multicast|(33:33|01:00)\S* dev )|\\\s+(inet6?|link)\s+\S+( users \d+)?$`)
	volatile := regexp.MustCompile(`^\d+:\s| tentative| LOWER_UP|,LOWER_UP|NO-CARRIER,|,NO-CARRIER| linkdown| promiscuity \d| state [A-Z]+`)
	var lines []string
	for line := range strings.Lines(text) {
		line = volatile.ReplaceAllString(strings.TrimSpace(line), "")
		if line != "" && !joined.MatchString(line) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (l *lab) nicIn(t *testing.T, ns *hosttest.Namespace, mac string) *rtnl.Link {
	t.Helper()
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	links, err := conn.Links()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if link.MAC != nil && *link.MAC == mac {
			return &link
		}
	}
	return nil
}
