// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifytest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"plumbline.dev/plumbline/internal/model"
)

// Address is what the driver says the interface of every NIC in a pod has.
const Address = "192.0.2.1"

// RuntimeMemlock is how many bytes of memory the process may lock that makes containers.
const RuntimeMemlock = "8388608"

// CMNumber is the device number of RDMA's connection manager.
const CMNumber = "10:58"

// UMADNumber is the device number of a NIC's management datagrams.
func (n *Node) UMADNumber(i int) string { return fmt.Sprintf("231:%d", i) }

// rdmaFiles shows the device files that the node has for a NIC's RDMA device.
func (n *Node) rdmaFiles(t testing.TB, i int) {
	nic := n.Machine.NICs[i]
	n.charDevice(t, *nic.PCI, "infiniband_verbs", fmt.Sprintf("uverbs%d", i), n.RDMANumber(i), nic.RDMA)
	n.charDevice(t, *nic.PCI, "infiniband_mad", fmt.Sprintf("umad%d", i), n.UMADNumber(i), nic.RDMA)
}

func (n *Node) charDevice(t testing.TB, a model.PCIAddress, class, name, number string, rdma *model.RDMADevice) {
	dir := fmt.Sprintf("%s/%s/%s", n.devicePath(a), class, name)
	n.link(t, "sys/dev/char/"+number, "../../"+dir)
	link := fmt.Sprintf("sys/class/%s/%s", class, name)
	if _, err := os.Lstat(n.Path(link)); err == nil || rdma == nil {
		return // a whole machine has it already
	}
	n.write(t, "sys/"+dir+"/ibdev", rdma.Name+"\n")
	n.write(t, "sys/"+dir+"/dev", number+"\n")
	n.link(t, link, "../../"+dir)
}

// limits is fs/proc/base.c's.
func limits(memlock string) string {
	return fmt.Sprintf("Limit                     Soft Limit           Hard Limit           Units     \n"+
		"Max processes             127437               127437               processes \n"+
		"Max locked memory         %-20s %-20s bytes     \n", memlock, memlock)
}

// writeRDMA shows the RDMA devices that the pod's network namespace sees, each with the
// GIDs of its interface's address, and what the pod's processes may lock.
func (n *Node) writeRDMA(t testing.TB, p *Pod, dir string) {
	n.write(t, "proc/1/limits", limits(RuntimeMemlock))
	n.write(t, dir+"/limits", limits(p.Memlock))
	trie := "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\nLocal:\n  +-- 0.0.0.0/0 2 0 2\n"
	for _, a := range p.Addresses {
		trie += "     |-- " + a + "\n        /32 host LOCAL\n"
	}
	n.write(t, dir+"/net/fib_trie", trie)
	seen := maps.Clone(p.NICs)
	for name, l := range p.Links {
		if seen == nil {
			seen = map[string]int{}
		}
		seen[name] = l.NIC // whose RDMA device all network namespaces see
	}
	for name, i := range seen {
		nic := n.Machine.NICs[i]
		if nic.RDMA == nil || p.NoRDMA {
			continue
		}
		root := dir + "/root/sys/"
		device := n.devicePath(*nic.PCI) + "/infiniband/" + nic.RDMA.Name
		n.write(t, root+device+"/node_type", "1: CA\n")
		n.write(t, root+device+"/ports/1/link_layer", "Ethernet\n")
		for index, kind := range p.GIDs {
			n.write(t, fmt.Sprintf("%s%s/ports/1/gids/%d", root, device, index), "0000:0000:0000:0000:0000:ffff:c000:0201\n")
			n.write(t, fmt.Sprintf("%s%s/ports/1/gid_attrs/types/%d", root, device, index), kind+"\n")
			n.write(t, fmt.Sprintf("%s%s/ports/1/gid_attrs/ndevs/%d", root, device, index), name+"\n")
		}
		// The last entry is not in use.
		n.write(t, fmt.Sprintf("%s%s/ports/1/gids/%d", root, device, len(p.GIDs)), "0000:0000:0000:0000:0000:0000:0000:0000\n")
		n.link(t, root+"class/infiniband/"+nic.RDMA.Name, "../../"+device)
	}
}

// MakeVF makes a NIC of the machine's list the virtual function 3 of a physical one, the
// host's interface with an index, and returns that one's address.
func (n *Node) MakeVF(t testing.TB, i, index int) (pf model.PCIAddress) {
	t.Helper()
	pf = model.PCIAddress{Bus: 0xfe}
	vf := n.Machine.NICs[i].PCI.String()
	if err := os.MkdirAll(n.Path("sys/bus/pci/devices/"+vf), 0o755); err != nil {
		t.Fatal(err)
	}
	n.link(t, fmt.Sprintf("sys/bus/pci/devices/%s/physfn", vf), "../"+pf.String())
	n.link(t, "sys/bus/pci/devices/"+pf.String(), filepath.Join("../../../devices/pci0000:fe", pf.String()))
	n.link(t, fmt.Sprintf("sys/devices/pci0000:fe/%s/virtfn3", pf), "../../../bus/pci/devices/"+vf)
	n.write(t, fmt.Sprintf("sys/devices/pci0000:fe/%s/net/ens9/ifindex", pf), fmt.Sprintf("%d\n", index))
	return pf
}
