// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/model"
)

// withReason withholds the host's NIC with a PCI address.
func withReason(pci, reason string) func(*model.Machine) {
	return func(m *model.Machine) {
		for i := range m.NICs {
			if m.NICs[i].PCI.String() == pci {
				m.NICs[i].Withheld = &reason
			}
		}
	}
}

// withLinks adds symbolic links to a host, as the kernel has them of devices and drivers.
func withLinks(h Host, targets map[string]string) Host {
	for name, target := range targets {
		h.Files.(someUnreadable).MapFS[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
	}
	return h
}

func TestReloadHazards(t *testing.T) {
	const (
		devices = "sys/bus/pci/devices/"
		pci     = "../../../../bus/pci/drivers/"
		wayOut  = "carries the default route"
	)
	files := func(more map[string]string) map[string]string {
		all := map[string]string{devices + nicB + "/vendor": "0x15b3\n", devices + nicA + "/driver": absent, devices + nicB + "/driver": absent}
		for _, module := range []string{"mlx5_core", "mlx5_ib", "virtio_pci", "virtio_net", "cdc_ether", "igb"} {
			all["sys/module/"+module+"/refcnt"] = "3\n"
		}
		maps.Copy(all, more)
		return all
	}
	mlx5 := map[string]string{devices + nicA + "/driver": pci + "mlx5_core"}
	virtio := map[string]string{
		devices + nicA + "/driver":                 pci + "virtio-pci",
		"sys/bus/pci/drivers/virtio-pci/module":    "../../../../module/virtio_pci",
		devices + nicA + "/virtio3/driver":         "../../../../../bus/virtio/drivers/virtio_net",
		"sys/bus/virtio/drivers/virtio_net/module": "../../../../module/virtio_net",
	}
	auxiliary := map[string]string{
		devices + nicA + "/driver":                      pci + "mlx5_core",
		devices + nicA + "/mlx5_core.rdma.0/driver":     "../../../../../bus/auxiliary/drivers/mlx5_ib.rdma",
		"sys/bus/auxiliary/drivers/mlx5_ib.rdma/module": "../../../../module/mlx5_ib",
	}
	usb := func(m *model.Machine) {
		m.NICs = []model.NIC{{Interface: &model.Interface{Name: "usb0"}, Withheld: new(wayOut)}}
	}
	virtualFunction := func(m *model.Machine) {
		for i := range m.Functions {
			if m.Functions[i].Address == address(t, nicA) {
				m.Functions[i].PhysicalFunction = new(address(t, nicB))
			}
		}
	}
	a := model.NIC{PCI: new(address(t, nicA)), Interface: &model.Interface{Name: "eth1"}}
	for name, tc := range map[string]struct {
		module  string
		machine func(*model.Machine)
		files   map[string]string
		links   map[string]string
		held    *model.NIC
		want    []string
	}{
		"nothing hangs from it":        {module: "mlx5_core", links: mlx5},
		"the way out":                  {module: "mlx5_core", machine: withReason(nicA, wayOut), links: mlx5, want: []string{wayOut}},
		"the way out, not loaded":      {module: "bnxt_en", machine: withReason(nicA, wayOut), links: map[string]string{devices + nicA + "/driver": pci + "bnxt_en"}},
		"the way out, another driver":  {module: "mlx5_core", machine: withReason(nicA, wayOut), links: virtio},
		"the way out, no driver":       {module: "mlx5_core", machine: withReason(nicB, wayOut), links: mlx5},
		"the function's driver":        {module: "virtio_pci", machine: withReason(nicA, wayOut), links: virtio, want: []string{wayOut}},
		"the interface's driver":       {module: "virtio_net", machine: withReason(nicA, wayOut), links: virtio, want: []string{wayOut}},
		"the RDMA device's driver":     {module: "mlx5_ib", machine: withReason(nicA, wayOut), links: auxiliary, want: []string{wayOut}},
		"the way out, no PCI function": {module: "cdc_ether", machine: usb, links: map[string]string{"sys/class/net/usb0/device/driver": "../../../bus/usb/drivers/cdc_ether"}, files: map[string]string{"sys/class/net/usb0/device/uevent": ""}, want: []string{wayOut}},
		"the way out, another driver of no PCI function": {
			module: "mlx5_core", machine: usb, links: map[string]string{"sys/class/net/usb0/device/driver": "../../../bus/usb/drivers/cdc_ether"},
			files: map[string]string{"sys/class/net/usb0/device/uevent": ""},
		},
		"the way out, of no device": {module: "mlx5_core", machine: usb, want: []string{wayOut + ", and nobody can tell whether module mlx5_core drives it: "}},
		"a driver that is no link": {
			module: "mlx5_core", machine: withReason(nicA, wayOut), files: map[string]string{devices + nicA + "/driver": "mlx5_core\n"},
			want: []string{wayOut + ", and nobody can tell whether module mlx5_core drives it: "},
		},
		"a pod's":                         {module: "mlx5_core", links: mlx5, held: &a, want: []string{nicA + " eth1: a pod holds it (dra.net for default/claim)"}},
		"a pod's, another driver":         {module: "igb", links: mlx5, held: &a},
		"a pod's, the interface's driver": {module: "virtio_net", links: virtio, held: &a, want: []string{"a pod holds it"}},
		"a pod's virtual function": {
			module: "igb", machine: virtualFunction, held: &a, want: []string{"a pod holds it"},
			links: map[string]string{devices + nicA + "/driver": pci + "igbvf", devices + nicB + "/driver": pci + "igb"},
		},
		"a pod's, gone": {
			module: "mlx5_core", held: &model.NIC{PCI: new(address(t, "0000:ee:00.0"))},
			want: []string{"a pod holds it (dra.net for default/claim), and nobody can tell whether module mlx5_core drives it: "},
		},
		"a pod's, of no PCI function": {
			module: "mlx5_core", held: &model.NIC{Interface: &model.Interface{Name: "eth1"}},
			want: []string{"eth1: a pod holds it (dra.net for default/claim), and nobody can tell whether module mlx5_core drives it: it is no PCI function"},
		},
		"a pod's, not loaded": {module: "bnxt_en", held: &model.NIC{Interface: &model.Interface{Name: "eth1"}}},
		"a program with verbs": {
			module: "mlx5_core", files: map[string]string{"proc/812/fd/2": linked + "/dev/null", "sys/module/ib_uverbs/refcnt": "3\n", "sys/module/ib_uverbs/holders/mlx5_ib": ""},
			links: map[string]string{devices + nicA + "/driver": pci + "mlx5_core", "proc/812/fd/5": "/dev/infiniband/uverbs0", "proc/812/fd/6": "/dev/infiniband/uverbs0"},
			want:  []string{"process 812 (containerd) has /dev/infiniband/uverbs0 of mlx5_0 open"},
		},
		"a program with verbs of another driver's": {
			module: "igb", links: map[string]string{devices + nicA + "/driver": pci + "mlx5_core", "proc/812/fd/5": "/dev/infiniband/uverbs0"},
		},
		"a program that nobody may look at": {module: "mlx5_core", files: map[string]string{"proc/812/fd": unreadable}, links: mlx5},
		"storage": {
			module: "mlx5_core", files: map[string]string{"sys/module/nvme_rdma/refcnt": "2\n", "sys/module/ib_iser/refcnt": "0\n"},
			want: []string{"module nvme_rdma has 2 users"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var held []HeldNIC
			if tc.held != nil {
				held = []HeldNIC{{*tc.held, "dra.net for default/claim"}}
			}
			h := withLinks(hostWith(t, tc.machine, files(tc.files)), tc.links)
			got, err := ReloadHazards(h, tc.module, held)
			if err != nil || len(got) != len(tc.want) || !slices.EqualFunc(got, tc.want, strings.Contains) {
				t.Errorf("%q, %v; want %q", got, err, tc.want)
			}
			if len(tc.want) > 0 && !strings.Contains(tc.want[0], "nobody can tell") && strings.Contains(got[0], "nobody can tell") {
				t.Errorf("doubts what the kernel says: %q", got)
			}
		})
	}
	told := &report{}
	driverReload(withLinks(hostWith(t, withReason(nicA, wayOut), nil), map[string]string{"proc/812/fd/5": "/dev/infiniband/uverbs1"}), told)
	const want = "without module mlx5_core the host would lose: 0000:06:00.0 eth1 mlx5_0: " + wayOut + "; process 812 (containerd) has /dev/infiniband/uverbs1 of mlx5_1 open"
	if len(told.findings) != 1 || told.findings[0].Found != want || told.findings[0].Verdict != hosts.OK {
		t.Errorf("%+v, want %q", told.findings, want)
	}
	if _, err := ReloadHazards(hostWith(t, nil, files(map[string]string{"sys/module/nvme_rdma/refcnt": "many\n"})), "mlx5_core", nil); err == nil {
		t.Error("a count that is none is taken")
	}
}
