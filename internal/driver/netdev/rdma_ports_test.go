// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"testing"

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
