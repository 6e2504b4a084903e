// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify/collect"
)

// Node is a machine with pods.
type Node struct {
	Name    string
	Machine *model.Machine
	dir     string
	nextPID int
}

var (
	scanning sync.Mutex
	scanned  = map[string]*model.Machine{}
)

// Machine is a shipped machine as a scan of its tree finds it; scanned once.
func Machine(t testing.TB, name string) *model.Machine {
	t.Helper()
	scanning.Lock()
	defer scanning.Unlock()
	if m := scanned[name]; m != nil {
		return m
	}
	file, err := machine.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := inventory.Scan(context.Background(), inventory.Sources{Sys: file.Tree, GPUs: inventory.Listed(file.Facts.ModelGPUs())},
		inventory.Options{Name: file.Name})
	if err != nil {
		t.Fatal(err)
	}
	scanned[name] = m
	return m
}

// NewNode makes a node of a shipped machine.
func NewNode(t testing.TB, machineName string) *Node {
	t.Helper()
	return newNode(t, machineName, t.TempDir())
}

// NewWholeNode makes a node whose /sys has the whole machine in it, so that it
// can be scanned.
func NewWholeNode(t testing.TB, machineName string) *Node {
	t.Helper()
	file, err := machine.Open(machineName)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := file.Tree.WriteTo(filepath.Join(dir, "sys")); err != nil {
		t.Fatal(err)
	}
	return newNode(t, machineName, dir)
}

func newNode(t testing.TB, machineName, dir string) *Node {
	t.Helper()
	m := Machine(t, machineName)
	n := &Node{Name: "n1", Machine: m, dir: dir, nextPID: 1000}
	n.mkdir(t, "proc/1")
	n.write(t, "proc/1/cgroup", "0::/init.scope\n")
	n.write(t, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n")
	n.mkdir(t, "sys/fs/cgroup/system.slice/sshd.service")
	for i, g := range m.GPUs {
		n.write(t, fmt.Sprintf("proc/driver/nvidia/gpus/%s/information", g.PCI), fmt.Sprintf("Model: \t NVIDIA\nDevice Minor: \t %d\n", i))
	}
	n.capabilities(t)
	n.write(t, "sys/class/misc/rdma_cm/dev", CMNumber+"\n")
	for i := range m.NICs {
		if m.NICs[i].PCI == nil {
			continue
		}
		n.rdmaFiles(t, i)
		n.interrupts(t, i)
	}
	return n
}

// interrupts are one of each NIC, on the first CPU of its NUMA node.
func (n *Node) interrupts(t testing.TB, i int) {
	nic := n.Machine.NICs[i]
	number := 1000 + i
	n.write(t, fmt.Sprintf("sys/bus/pci/devices/%s/msi_irqs/%d", nic.PCI, number), "msix\n")
	cpu := 0
	if node := n.NodeOf(nic.NUMANode); node != nil && !node.CPUs.IsEmpty() {
		cpu = node.CPUs.List()[0]
	}
	n.write(t, fmt.Sprintf("proc/irq/%d/effective_affinity_list", number), fmt.Sprintf("%d\n", cpu))
}

// NodeOf is the NUMA node of an id; nil for none.
func (n *Node) NodeOf(id *int) *model.NUMANode {
	if id == nil {
		return nil
	}
	return n.Machine.NUMANode(*id)
}

// GPUNumber is the device number of a GPU, NVIDIA's.
func (n *Node) GPUNumber(i int) string { return fmt.Sprintf("195:%d", i) }

// capabilities lists the numbers of capability files, as NVIDIA's driver does: of each
// GPU those of 15 GPU instances with 8 compute instances each.
func (n *Node) capabilities(t testing.TB) {
	n.write(t, "proc/devices", "Character devices:\n  1 mem\n195 nvidia\n510 nvidia-caps-imex-channels\n511 nvidia-caps\n\nBlock devices:\n  7 loop\n")
	var list strings.Builder
	list.WriteString("config 1\nmonitor 2\n")
	for gpu := range n.Machine.GPUs {
		for instance := range migInstances {
			fmt.Fprintf(&list, "gpu%d/gi%d/access %d\n", gpu, instance, capabilityMinor(gpu, instance))
			for compute := range migComputes {
				fmt.Fprintf(&list, "gpu%d/gi%d/ci%d/access %d\n", gpu, instance, compute, capabilityMinor(gpu, instance)+1+compute)
			}
		}
	}
	n.write(t, "proc/driver/nvidia-caps/mig-minors", list.String())
}

const (
	migInstances = 15
	migComputes  = 8
)

func capabilityMinor(gpu, instance int) int {
	return 3 + (gpu*migInstances+instance)*(migComputes+1)
}

// AddInstance adds the files of a GPU instance of a GPU and of its first compute
// instance to a pod's.
func (n *Node) AddInstance(p *Pod, gpu, instance int) {
	for _, minor := range []int{capabilityMinor(gpu, instance), capabilityMinor(gpu, instance) + 1} {
		p.Files[fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", minor)] = fmt.Sprintf("511:%d", minor)
	}
}

// RemoveInstance takes them from it: those of the GPU instance itself, of its compute
// instance, or both.
func (n *Node) RemoveInstance(p *Pod, gpu, instance int, itself, compute bool) {
	minor := capabilityMinor(gpu, instance)
	if itself {
		delete(p.Files, fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", minor))
	}
	if compute {
		delete(p.Files, fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", minor+1))
	}
}

// RDMANumber is the device number of a NIC's RDMA device.
func (n *Node) RDMANumber(i int) string { return fmt.Sprintf("231:%d", 192+i) }

// Options are what it takes to read the node.
func (n *Node) Options(t testing.TB) collect.Options {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(n.dir, &s); err != nil {
		t.Fatal(err)
	}
	return collect.Options{
		Proc: filepath.Join(n.dir, "proc"), Sys: filepath.Join(n.dir, "sys"), SysfsType: s.Type, Device: deviceFile,
	}
}

// Reader opens the node.
func (n *Node) Reader(t testing.TB) *collect.Reader {
	t.Helper()
	return n.open(t, n.Options(t))
}

// RealReader opens the node as if the kernel itself showed it, which it does
// not: nothing there is a sysfs.
func (n *Node) RealReader(t testing.TB) *collect.Reader {
	t.Helper()
	o := n.Options(t)
	o.SysfsType = 0
	return n.open(t, o)
}

func (n *Node) open(t testing.TB, o collect.Options) *collect.Reader {
	r, err := collect.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// deviceFile takes files with a text such as "195:0" for character devices.
func deviceFile(directory int, name string) (string, bool, error) {
	fd, err := unix.Openat(directory, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", false, nil
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return "", false, nil
	}
	number := strings.TrimSpace(string(text))
	return number, strings.Count(number, ":") == 1, nil
}

// Path is where something of the node's lies, such as proc/1000/status.
func (n *Node) Path(name string) string { return filepath.Join(n.dir, name) }

// devicePath is a function's directory below /sys.
func (n *Node) devicePath(a model.PCIAddress) string {
	f := n.Machine.Function(a)
	path := n.Machine.Root(f.Root).Path
	for _, step := range n.Machine.Path(a) {
		path += "/" + step.String()
	}
	return path
}

func (n *Node) mkdir(t testing.TB, name string) {
	t.Helper()
	if err := os.MkdirAll(n.Path(name), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (n *Node) write(t testing.TB, name, text string) {
	t.Helper()
	err := os.WriteFile(n.Path(name), []byte(text), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		n.mkdir(t, filepath.Dir(name))
		err = os.WriteFile(n.Path(name), []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (n *Node) link(t testing.TB, name, target string) {
	t.Helper()
	n.mkdir(t, filepath.Dir(name))
	if err := os.Symlink(target, n.Path(name)); err != nil {
		t.Fatal(err)
	}
}
