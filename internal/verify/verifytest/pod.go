// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifytest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
)

// Pod is what is true of a pod of one container. A test changes it and has it
// written anew.
type Pod struct {
	Namespace, Name, UID, ContainerID string
	PID                               int
	// CPUs and Mems are the container's control group's; Allowed the process's
	// CPUs; EnvCPUs what its environment says, by claim UID.
	CPUs, Mems cpuset.CPUSet
	Allowed    cpuset.CPUSet
	EnvCPUs    map[string]cpuset.CPUSet
	// Threads are where they ran last, and for how long.
	Threads []Thread
	// NICs are interfaces of PCI functions in its network namespace: name to
	// number in the machine's list.
	NICs map[string]int
	// Links are its own on NICs that are shared, by name.
	Links map[string]Link
	// Addresses are those of all its interfaces.
	Addresses []string
	// Veth is true for a pod with eth0 of a veth pair.
	Veth bool
	// Files are device files: path to number.
	Files map[string]string
	// NoRDMA is true where the network namespace does not see the RDMA devices of its
	// NICs, GIDs are the types of those of the interface's address, and Memlock is the
	// limit of locked memory.
	NoRDMA  bool
	GIDs    []string
	Memlock string
}

// Link is a pod's own on a NIC that is shared.
type Link struct {
	// NIC is the number in the machine's list.
	NIC         int
	Alias, Kind string
	VLANID      int
	Down        bool
}

// Thread is one thread.
type Thread struct {
	CPU   int
	Ticks uint64
}

// NewPod is a pod with nothing but eth0, which runs anywhere.
func (n *Node) NewPod(name string) *Pod {
	n.nextPID += 10
	sum := sha256.Sum256([]byte(name))
	p := &Pod{
		Namespace: "default", Name: name, UID: fmt.Sprintf("%x-%x-%x", sum[:4], sum[4:6], sum[6:12]), ContainerID: fmt.Sprintf("%x", sum),
		PID: n.nextPID, EnvCPUs: map[string]cpuset.CPUSet{}, NICs: map[string]int{}, Links: map[string]Link{}, Addresses: []string{Address}, Veth: true, Files: map[string]string{"/dev/null": "1:3", "/dev/pts/0": "136:0"},
		Threads: []Thread{{CPU: 0, Ticks: 100}, {CPU: 0, Ticks: 5}},
		GIDs:    []string{"IB/RoCE v1", "RoCE v2"}, Memlock: "unlimited",
	}
	var all, mems []int
	for _, c := range n.Machine.CPUs {
		if c.Online {
			all = append(all, c.ID)
		}
	}
	for _, node := range n.Machine.NUMANodes {
		mems = append(mems, node.ID)
	}
	p.CPUs, p.Mems = cpuset.New(all...), cpuset.New(mems...)
	p.Allowed = p.CPUs
	return p
}

// Pin puts the pod and its threads onto CPUs, and memory of nodes.
func (p *Pod) Pin(cpus, mems cpuset.CPUSet) {
	p.CPUs, p.Mems, p.Allowed = cpus, mems, cpus
	for i := range p.Threads {
		p.Threads[i].CPU = cpus.List()[i%cpus.Size()]
	}
}

// Run has every thread run for a while where it is.
func (p *Pod) Run() {
	for i := range p.Threads {
		p.Threads[i].Ticks += 50
	}
}

// Tick shows again where the pod's threads ran, and nothing else.
func (n *Node) Tick(t testing.TB, p *Pod) {
	t.Helper()
	for i, thread := range p.Threads {
		n.write(t, fmt.Sprintf("proc/%d/task/%d/stat", p.PID, p.PID+i), statLine(p.PID+i, thread))
	}
}

// Group is the pod's container's control group, below the cgroup file system.
func (p *Pod) Group() string {
	return fmt.Sprintf("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%s.slice/cri-containerd-%s.scope",
		strings.ReplaceAll(p.UID, "-", "_"), p.ContainerID)
}

// Remove ends the pod.
func (n *Node) Remove(t testing.TB, p *Pod) {
	t.Helper()
	for _, path := range []string{fmt.Sprintf("proc/%d", p.PID), "sys/fs/cgroup/" + p.Group()} {
		if err := os.RemoveAll(n.Path(path)); err != nil {
			t.Fatal(err)
		}
	}
}

// Write shows the pod in /proc and /sys as it is now.
func (n *Node) Write(t testing.TB, p *Pod) {
	t.Helper()
	// What the pod may have had and has no longer: interfaces and device files.
	if err := os.RemoveAll(n.Path(fmt.Sprintf("proc/%d/root", p.PID))); err != nil {
		t.Fatal(err)
	}
	group := "sys/fs/cgroup/" + p.Group()
	n.write(t, group+"/cgroup.procs", "0\n") // of another process namespace
	n.write(t, group+"/cpuset.cpus.effective", p.CPUs.String()+"\n")
	n.write(t, group+"/cpuset.mems.effective", p.Mems.String()+"\n")
	n.write(t, group+"/memory.numa_stat", fmt.Sprintf("anon N%d=1048576\nfile N0=4096\n", p.Mems.List()[0]))

	dir := fmt.Sprintf("proc/%d", p.PID)
	n.write(t, dir+"/cgroup", "0::/../../../"+p.Group()+"\n")
	n.write(t, dir+"/status", fmt.Sprintf("Name:\t%s\nPPid:\t1\nCpus_allowed_list:\t%s\nMems_allowed_list:\t%s\n", "python", p.Allowed, p.Mems))
	n.write(t, dir+"/stat", statLine(p.PID, p.Threads[0]))
	n.Tick(t, p)
	environ := "PATH=/bin\x00SECRET=x\x00"
	for uid, cpus := range p.EnvCPUs {
		environ += fmt.Sprintf("DRA_CPUSET_%s=%s\x00", uid, cpus)
	}
	n.write(t, dir+"/environ", environ)
	n.write(t, dir+"/mountinfo", "1 0 0:1 / / rw - overlay overlay rw\n2 1 0:2 / /sys ro - sysfs sysfs ro\n3 1 0:3 / /dev rw - tmpfs tmpfs rw\n")
	n.writeNetwork(t, p, dir)
	n.writeRDMA(t, p, dir)
	n.mkdir(t, dir+"/root/dev/shm")
	for path, number := range p.Files {
		n.write(t, dir+"/root"+path, number+"\n")
	}
}

func (n *Node) writeNetwork(t testing.TB, p *Pod, dir string) {
	class := dir + "/root/sys/class/net/"
	names := []string{"lo"}
	n.link(t, class+"lo", "../../devices/virtual/net/lo")
	if p.Veth {
		names = append(names, "eth0")
		n.link(t, class+"eth0", "../../devices/virtual/net/eth0")
	}
	for name, i := range p.NICs {
		names = append(names, name)
		n.link(t, class+name, fmt.Sprintf("../../%s/net/%s", n.devicePath(*n.Machine.NICs[i].PCI), name))
	}
	vlans := ""
	for name, l := range p.Links {
		names = append(names, name)
		own := dir + "/root/sys/devices/virtual/net/" + name + "/"
		n.link(t, class+name, "../../devices/virtual/net/"+name)
		flags := "0x1003"
		if l.Down {
			flags = "0x1002"
		}
		for file, text := range map[string]string{
			"ifindex": "2", "iflink": strconv.Itoa(hostIndex(l.NIC)), "ifalias": l.Alias, "flags": flags, "address": "02:00:00:00:00:01",
			"uevent": "DEVTYPE=" + l.Kind + "\nINTERFACE=" + name + "\nIFINDEX=2",
		} {
			n.write(t, own+file, text+"\n")
		}
		if l.Kind == "vlan" {
			vlans += fmt.Sprintf("%-15s| %d  | %s\n", name, l.VLANID, "ens2f0")
		}
	}
	if vlans != "" { // which the kernel has with the module alone
		n.write(t, dir+"/net/vlan/config", "VLAN Dev name\t | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n"+vlans)
	}
	dev := "Inter-|   Receive |  Transmit\n face |bytes packets|bytes\n"
	for _, name := range names {
		dev += fmt.Sprintf("%6s: 0 0 0\n", name)
	}
	n.write(t, dir+"/net/dev", dev)
	n.write(t, dir+"/net/route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"+
		"eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
}

// statLine is fs/proc/array.c's, with a name that would mislead who splits at
// blanks.
func statLine(id int, t Thread) string {
	return fmt.Sprintf("%d (py) S 1 (x) S 1 1 1 0 -1 4194560 1 0 0 0 %d 0 0 0 20 0 4 0 %d 1 1 1 1 1 1 1 1 1 0 0 0 0 0 0 17 %d 0 0 0 0 0 1 1 1 1 1 1 1 0\n",
		id, t.Ticks, 500+id, t.CPU)
}

// Process is a process of the host, of no pod.
func (n *Node) Process(t testing.TB, pid int) {
	t.Helper()
	n.write(t, fmt.Sprintf("proc/%d/cgroup", pid), "0::/system.slice/some.service\n")
}
