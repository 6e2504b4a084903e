// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// Of a device with two ports a NIC has its own: by the interface that RoCE's GIDs name in
// the pod, where it may be called otherwise than on the host, and of InfiniBand by dev_port.
func TestOwnPorts(t *testing.T) {
	const roce = `
		class/infiniband/mlx4_0 -> ../../devices/pci0000:10/0000:11:00.0/infiniband/mlx4_0
		devices/pci0000:10/0000:11:00.0/infiniband/mlx4_0/ports/1/state = 4: ACTIVE
		devices/pci0000:10/0000:11:00.0/infiniband/mlx4_0/ports/1/gid_attrs/ndevs/0 = eth1
		devices/pci0000:10/0000:11:00.0/infiniband/mlx4_0/ports/2/state = 4: ACTIVE
		devices/pci0000:10/0000:11:00.0/infiniband/mlx4_0/ports/2/gid_attrs/ndevs/0 = net1`
	const infiniBand = `
		class/infiniband/mlx4_0 -> ../../devices/pci0000:10/0000:11:00.0/infiniband/mlx4_0
		devices/pci0000:10/0000:11:00.0/infiniband/mlx4_0/ports/1/state = 4: ACTIVE
		devices/pci0000:10/0000:11:00.0/infiniband/mlx4_0/ports/2/state = 4: ACTIVE`
	const onePort = `
		class/infiniband/mlx4_0 -> ../../devices/pci0000:10/0000:11:00.0/infiniband/mlx4_0
		devices/pci0000:10/0000:11:00.0/infiniband/mlx4_0/ports/1/gid_attrs/ndevs/0 = eth1`
	for name, test := range map[string]struct {
		files, ifname, port string
		want                []int
	}{
		"RoCE, the first":                           {roce, "eth1", "", []int{1}},
		"RoCE, the second, renamed in the pod":      {roce, "net1", "p1", []int{2}},
		"RoCE names it, whatever dev_port says":     {roce, "net1", "", []int{2}},
		"RoCE, GIDs do not name it":                 {roce, "net7", "p1", []int{2}},
		"InfiniBand, the first":                     {infiniBand, "ib0", "", []int{1}},
		"InfiniBand, the second":                    {infiniBand, "ib1", "p1", []int{2}},
		"InfiniBand, the second, renamed":           {infiniBand, "net1", "p1", []int{2}},
		"InfiniBand, a third":                       {infiniBand, "ib2", "p2", nil},
		"the whole device, without interface":       {infiniBand, "", "", []int{1, 2}},
		"the only port, whatever its interface is":  {onePort, "net1", "", []int{1}},
		"the only port, whatever the other one was": {onePort, "net1", "p1", []int{1}},
	} {
		ports, problems := sysfs.ReadRDMAPorts(hosttest.Tree(t, test.files), "mlx4_0")
		if len(problems) > 0 {
			t.Fatalf("%s: %v", name, problems)
		}
		plan := Plan{NIC: model.NIC{RDMA: &model.RDMADevice{Name: "mlx4_0"}}}
		if test.port != "" {
			plan.NIC.Port = &test.port
		}
		var link *rtnl.Link
		if test.ifname != "" {
			link = &rtnl.Link{Name: test.ifname}
		}
		var got []int
		for _, p := range ownPorts(ports, plan, link) {
			got = append(got, p.Number)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// gidsByTurns is a pod's /sys that changes with each look at a table of GIDs, and stays as it
// was last.
type gidsByTurns struct {
	fs.ReadLinkFS
	next []fs.ReadLinkFS
}

func (g *gidsByTurns) Open(name string) (fs.File, error) {
	f, err := g.ReadLinkFS.Open(name)
	if strings.HasSuffix(name, "/gids/0") && len(g.next) > 0 {
		g.ReadLinkFS, g.next = g.next[0], g.next[1:]
	}
	return f, err
}

// The GID of an address that has just been set is on its way, and waited for; where none will
// come, or only somebody else's, nobody waits for long.
func TestAwaitGIDs(t *testing.T) {
	const device = `
		class/infiniband/mlx5_0 -> ../../devices/pci0000:10/0000:11:00.0/infiniband/mlx5_0
		devices/pci0000:10/0000:11:00.0/infiniband/mlx5_0/node_type = 1: CA
		devices/pci0000:10/0000:11:00.0/infiniband/mlx5_0/ports/1/link_layer = Ethernet
	`
	gid := func(index int, address, kind string) string {
		port := "devices/pci0000:10/0000:11:00.0/infiniband/mlx5_0/ports/1/"
		return fmt.Sprintf("%[1]sgids/%[2]d = %[3]s\n%[1]sgid_attrs/types/%[2]d = %[4]s\n%[1]sgid_attrs/ndevs/%[2]d = net1\n", port, index, address, kind)
	}
	const own = "0000:0000:0000:0000:0000:ffff:0a00:0002"
	empty := device + gid(0, "0000:0000:0000:0000:0000:0000:0000:0000", "RoCE v2")
	local := device + gid(0, "fe80:0000:0000:0000:0000:00ff:fe00:0000", "RoCE v2")
	with := local + gid(1, own, "RoCE v2")
	v1 := device + gid(0, own, "IB/RoCE v1")
	iWARP, infiniBand := strings.ReplaceAll(local, "1: CA", "4: RNIC"), strings.ReplaceAll(local, "Ethernet", "InfiniBand")
	link := &rtnl.Link{Name: "net1"}
	address := []rtnl.Prefix{{Prefix: netip.MustParsePrefix("10.0.0.2/24"), Global: true}}
	for name, test := range map[string]struct {
		trees     []string
		addresses []rtnl.Prefix
		want      int
		waits     bool
	}{
		"there":                         {[]string{with}, address, 1, false},
		"comes":                         {[]string{empty, local, with}, address, 1, true},
		"never comes":                   {[]string{local}, address, 0, true},
		"RoCE v1 alone":                 {[]string{v1}, address, 0, false},
		"no address":                    {[]string{local}, nil, 0, false},
		"RoCE is switched off":          {[]string{device}, address, 0, false},
		"InfiniBand":                    {[]string{infiniBand}, address, 0, false},
		"iWARP, whose GIDs are no such": {[]string{iWARP}, address, 0, false},
	} {
		var trees []fs.ReadLinkFS
		for _, text := range test.trees {
			trees = append(trees, hosttest.Tree(t, text))
		}
		v := &rdmaView{}
		got := v.awaitGIDs(&gidsByTurns{trees[0], trees[1:]}, "mlx5_0", 1, link, test.addresses)
		if waited := !v.waitsUntil.IsZero(); len(got) != test.want || waited != test.waits {
			t.Errorf("%s: GIDs %+v, waited %t, want %d, %t", name, got, waited, test.want, test.waits)
		}
	}
	// One NIC may use up the time of all: then there is one look.
	v := &rdmaView{waitsUntil: time.Now().Add(-time.Second)}
	turns := &gidsByTurns{hosttest.Tree(t, local), []fs.ReadLinkFS{hosttest.Tree(t, with)}}
	if got := v.awaitGIDs(turns, "mlx5_0", 1, link, address); len(got) > 0 {
		t.Errorf("GIDs %+v, want one look alone", got)
	}
}
