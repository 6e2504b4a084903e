// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"path/filepath"
	"slices"

	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/initramfs"
	"plumbline.dev/plumbline/lab/vm/qemu"
	"plumbline.dev/plumbline/lab/vm/shape"
)

// Shape is the hardware a virtual machine imitates.
type Shape = shape.Shape

// Program is how to start a program of this host: Path, then Args before any
// other argument, with Env as its whole environment. A program unpacked from a
// package is started through that package's own dynamic loader.
type Program = qemu.Program

// Config is a virtual machine to be.
type Config struct {
	// Name is the node's name.
	Name string
	// Dir is the machine's own folder. It holds everything Start writes.
	Dir string
	// Shape is the hardware.
	Shape *Shape
	// CPUs and MemoryMiB are what it is scaled to.
	CPUs, MemoryMiB int
	// KVM says that guests boot with hardware virtualisation here (see KVM).
	KVM bool

	// QEMU starts qemu-system-x86_64.
	QEMU Program
	// Kernel is the guest's kernel image; ModulesDir the folder of its modules,
	// such as …/lib/modules/6.1.0-56-amd64.
	Kernel, ModulesDir string
	// Init is the guest-init program, Busybox a static busybox; both run on
	// the guest's processor.
	Init, Busybox string
	// Applets are the commands busybox provides, as it lists them itself.
	Applets []string

	// Modules are kernel modules wanted besides DefaultModules, by name.
	Modules []string
	// ModuleOptions are parameters that modules are loaded with, by name of the module,
	// besides those that save time.
	ModuleOptions map[string]string
	// Files are the node's own files, by absolute path in the guest.
	Files initramfs.Files
	// Dirs are empty folders to make.
	Dirs initramfs.Dirs
	// Sysctls are kernel settings, over DefaultSysctls.
	Sysctls map[string]string
	// Services run in the guest, started in this order. What each prints is
	// in Log(name).
	Services []guest.Service
	// Forwards lets this host's loopback reach the guest.
	Forwards []qemu.Forward
}

// Defaults for Config.
const (
	DefaultCPUs = 16
	// DefaultMemoryMiB has room for two pods of 8 GiB and the node's own
	// programs.
	DefaultMemoryMiB = 20 * 1024
)

// HostAddress is how the guest reaches this host's loopback; GuestAddress is
// the guest's own address there (QEMU's user network).
const (
	HostAddress  = "10.0.2.2"
	GuestAddress = "10.0.2.15"
)

// ManagementInterface is the guest's interface to the host.
const ManagementInterface = "mgmt0"

func (c *Config) path(elem ...string) string {
	return filepath.Join(append([]string{c.Dir}, elem...)...)
}

// moduleNames are the kernel modules to load, in a fixed order: those of a NIC with
// virtual functions where there is one.
func (c *Config) moduleNames() []string {
	names := slices.Concat(DefaultModules, c.Modules)
	if c.Shape.SRIOV() != "" {
		names = append(names, "igb", "igbvf")
	}
	return names
}

// DefaultModules are the kernel modules that every guest loads: the way to the
// host, the stand-ins' drivers, what containers need, the link types that
// plumbline moves, and soft RoCE (which asks for crc32 without saying so).
var DefaultModules = []string{
	"e1000e", "virtio_pci", "virtio_console", "virtio_net", "bochs",
	"overlay", "veth", "bridge", "br_netfilter",
	"dummy", "macvlan", "ipvlan", "vrf", "8021q",
	"crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm",
}

// DefaultSysctls are what a node needs and a kernel does not start with.
var DefaultSysctls = map[string]string{
	"net.ipv4.ip_forward":          "1",
	"net.ipv6.conf.all.forwarding": "1",
	// QEMU's user network answers a pod as it answers the guest, and asks who
	// has the pod's address: the guest says that it has (arp_fwd_proxy), at once.
	"net.ipv4.conf." + ManagementInterface + ".proxy_arp":    "1",
	"net.ipv4.neigh." + ManagementInterface + ".proxy_delay": "0",
	"vm.overcommit_memory":                                   "1",
	"kernel.panic":                                           "10",
	"kernel.panic_on_oops":                                   "1",
	"fs.inotify.max_user_instances":                          "8192",
	"fs.inotify.max_user_watches":                            "524288",
}
