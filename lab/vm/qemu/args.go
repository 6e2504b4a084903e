// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"fmt"
	"strings"

	"plumbline.dev/plumbline/lab/vm/pcie"
	"plumbline.dev/plumbline/lab/vm/shape"
)

// Options is everything a command line depends on.
type Options struct {
	// Name appears in the process list.
	Name string
	// Shape is the machine, Layout what it was scaled to.
	Shape  *shape.Shape
	Layout shape.Layout
	// Kernel and Initrd are files on this host; Cmdline the kernel's.
	Kernel, Initrd, Cmdline string
	// KVM chooses hardware virtualisation instead of emulation.
	KVM bool
	// Console receives what the guest's kernel and init print.
	Console string
	// Control is the path of QEMU's own control socket (QMP).
	Control string
	// Forwards lets this host's loopback reach ports of the guest.
	Forwards []Forward
	// Logs and Sockets are the guest's named ports to the host: files that
	// the guest appends to, and sockets this host connects to.
	Logs, Sockets []Port
	// Shell is the path of a socket to the guest's terminal hvc0.
	Shell string
}

// Forward maps a TCP port of this host's loopback to one of the guest.
type Forward struct{ Host, Guest int }

// Port is a virtio-serial port called Name in the guest, a file or a socket at
// Path here.
type Port struct{ Name, Path string }

// MAC returns the Ethernet address of the i-th NIC of a machine, a locally
// administered one; the management NIC is number 0.
func MAC(i int) string { return fmt.Sprintf("02:70:6c:00:%02x:%02x", i>>8, i&0xff) }

// Args returns QEMU's arguments, and in words what differs from the machine.
func Args(o Options) (args, deviations []string, err error) {
	own := newLabDevices(o)
	plan, err := pcie.New(o.Shape, standIns(o.Shape), own.devices)
	if err != nil {
		return nil, nil, err
	}
	args = append(base(o), processors(o)...)
	args = append(args, own.backends...)
	nics := 0
	for _, d := range o.Shape.Devices {
		if d.Kind == shape.NIC {
			nics++
			// One hub joins all NICs: a fabric of one segment, inside QEMU.
			args = append(args, "-netdev", fmt.Sprintf("hubport,hubid=1,id=fabric%d", nics))
		}
	}
	for _, d := range plan.Devices {
		args = append(args, "-device", d.String())
	}
	args = append(args, own.attached...)
	return args, append(o.Shape.Deviations(o.Layout), plan.Deviations...), nil
}

// machine is q35 without what no guest of the lab uses.
const machine = "q35,graphics=off,smbus=off,sata=off,usb=off,vmport=off"

func base(o Options) []string {
	accel := "tcg,thread=multi"
	if o.KVM {
		accel = "kvm"
	}
	return []string{
		"-name", escape(o.Name),
		"-machine", machine, "-accel", accel, "-cpu", "max",
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-kernel", o.Kernel, "-initrd", o.Initrd, "-append", o.Cmdline,
		"-chardev", "file,id=console,path=" + escape(o.Console), "-serial", "chardev:console",
		"-qmp", "unix:" + escape(o.Control) + ",server=on,wait=off",
	}
}

// escape doubles commas, which end a value on QEMU's command line.
func escape(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// processors returns CPUs, NUMA nodes, their memory and distances.
func processors(o Options) []string {
	l := o.Layout
	var total int
	for _, m := range l.MemoryMiB {
		total += m
	}
	args := []string{
		"-smp", fmt.Sprintf("cpus=%d,sockets=%d,cores=%d,threads=%d", len(l.Node), l.Sockets, l.CoresPerSocket, l.ThreadsPerCore),
		"-m", fmt.Sprintf("%dM", total),
	}
	for i, m := range l.MemoryMiB {
		// The guest's memory is only promised (reserve=off, no prealloc):
		// the host pays for what the guest touches.
		args = append(args, "-object", fmt.Sprintf("memory-backend-ram,id=memory%d,size=%dM,reserve=off,prealloc=off", i, m),
			"-numa", fmt.Sprintf("node,nodeid=%d,memdev=memory%d", i, i))
	}
	for cpu, node := range l.Node {
		core := cpu / l.ThreadsPerCore
		args = append(args, "-numa", fmt.Sprintf("cpu,node-id=%d,socket-id=%d,core-id=%d,thread-id=%d",
			node, core/l.CoresPerSocket, core%l.CoresPerSocket, cpu%l.ThreadsPerCore))
	}
	for i := range l.MemoryMiB {
		for j := range l.MemoryMiB {
			if i != j {
				args = append(args, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", i, j, o.Shape.Distance(i, j)))
			}
		}
	}
	return args
}

// Program is how to start a program of this host: Path, then Args before any
// other argument, with Env as its whole environment.
type Program struct {
	Path string
	Args []string
	Env  []string
}
