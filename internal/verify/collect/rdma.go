// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"

	"plumbline.dev/plumbline/internal/host/procfs"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// What package evaluate compares with: the type of GIDs that go by addresses, and a limit
// that there is none of.
const (
	RoCEv2    = sysfs.RoCEv2
	Unlimited = procfs.Unlimited
)

// RDMA is what a pod that was given RDMA devices has of them.
type RDMA struct {
	// Err says why nothing is known of it.
	Err error
	// Devices are those of hardware that the pod's network namespace sees.
	Devices []RDMADevice
	// Files are the device files that the node has for RDMA devices, whoever has them, by
	// device number.
	Files map[string]RDMAFile
	// Addresses are those of all the pod's interfaces; AddressesErr says why not known.
	// They are read where a device has a table of RoCE's GIDs.
	Addresses    map[netip.Addr]bool
	AddressesErr error
}

// RDMADevice is an RDMA device of hardware.
type RDMADevice struct {
	Name string
	PCI  model.PCIAddress
	// RoCE is true where its GIDs are addresses of interfaces; GIDs are the table's.
	RoCE bool
	GIDs []sysfs.GID
}

// RDMAFile is a character device that the node has for RDMA.
type RDMAFile struct {
	// Path is the host's, such as /dev/infiniband/uverbs0; Kind is uverbs, umad, issm or
	// rdma_cm.
	Path, Kind string
	// Device is the RDMA device's name; empty for rdma_cm, which all share.
	Device string
	// PCI is nil for a device of software, and for rdma_cm.
	PCI *model.PCIAddress
}

// ContainerRDMAFile is one of them in a container's /dev, at a path of its own.
type ContainerRDMAFile struct {
	In string
	RDMAFile
}

// rdma reads the RDMA devices of hardware that the pod's network namespace sees
// (/sys/class/infiniband), from a sysfs that links has found to be of that namespace. Of
// those of wanted functions alone the GIDs are read: a pod may see those of all virtual
// functions.
func (in *inside) rdma(wanted []model.PCIAddress) ([]RDMADevice, error) {
	if err := in.answers("/sys"); err != nil {
		return nil, err
	}
	dir, err := openBelow(in.root, "sys", crossing)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := isOf(dir, in.options.SysfsType); err != nil {
		return nil, err
	}
	sys := oneMount{dir}
	entries, err := fs.ReadDir(sys, rdmaClass)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list RDMA devices in the container: %w", err)
	}
	var found []RDMADevice
	for _, e := range entries {
		target, err := sys.ReadLink(path.Join(rdmaClass, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("RDMA device %.64q in the container: %w", e.Name(), err)
		}
		address := pciOf(target)
		if address == nil {
			continue // made of software: whoever made it has its interface
		}
		d := RDMADevice{Name: e.Name(), PCI: *address}
		if slices.Contains(wanted, d.PCI) {
			if err := d.readGIDs(sys); err != nil {
				return nil, err
			}
		}
		found = append(found, d)
	}
	return found, nil
}

const rdmaClass = "class/infiniband"

// readGIDs reads the GIDs of a device where they are addresses: not on InfiniBand and
// iWARP, and not where the table has no entries, as RoCE is switched off.
func (d *RDMADevice) readGIDs(sys fs.FS) error {
	is, problems := sysfs.ReadRDMADevice(sys, d.Name)
	if len(problems) == 0 && (is == nil || is.NodeType == nil || *is.NodeType != "CA" || is.LinkLayer == nil || *is.LinkLayer != "Ethernet") {
		return nil
	}
	var more []sysfs.Problem
	ports, _ := sysfs.ReadRDMAPorts(sys, d.Name)
	for _, p := range ports {
		table, err := fs.ReadDir(sys, path.Join(rdmaClass, d.Name, "ports", strconv.Itoa(p.Number), "gids"))
		d.RoCE = d.RoCE || err == nil && len(table) > 0
		gids, found := sysfs.ReadGIDs(sys, d.Name, p.Number)
		d.GIDs, more = append(d.GIDs, gids...), append(more, found...)
	}
	if problems = append(problems, more...); len(problems) > 0 {
		return fmt.Errorf("RDMA device %s in the container: %s", d.Name, problems[0])
	}
	return nil
}

// rdma puts together what is known of a pod's RDMA; err says why its own view is not
// known.
func (r *Reader) rdma(p *Pod, shown []RDMADevice, err error) {
	p.RDMA = &RDMA{Err: err, Devices: shown, Files: r.nodeRDMAFiles()}
	if slices.ContainsFunc(shown, func(d RDMADevice) bool { return d.RoCE }) {
		first, _ := firstProcesses(p.Containers)
		p.RDMA.Addresses, p.RDMA.AddressesErr = r.localAddresses(slices.Max(first))
	}
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Err == nil {
			c.Memlock, c.MemlockErr = r.memlock(c)
			c.MemlockInherited = c.MemlockErr == nil && r.inherited(c, c.Memlock)
		}
	}
}

// nodeRDMAFiles are the node's files of RDMA devices, read once a scan.
func (r *Reader) nodeRDMAFiles() map[string]RDMAFile {
	if r.rdmaFiles != nil {
		return r.rdmaFiles
	}
	r.rdmaFiles = map[string]RDMAFile{}
	list, _ := sysfs.ReadRDMAFiles(r.sys) // what cannot be read the node does not show
	for _, f := range list {
		if f.Number != nil {
			number := fmt.Sprintf("%d:%d", f.Number.Major, f.Number.Minor)
			r.rdmaFiles[number] = RDMAFile{Path: f.Path, Kind: f.Kind, Device: f.RDMADevice, PCI: f.PCI}
		}
	}
	return r.rdmaFiles
}

// rdmaFilesOf are those among device files that the node has for RDMA.
func (r *Reader) rdmaFilesOf(devices []deviceFile) []ContainerRDMAFile {
	var found []ContainerRDMAFile
	for _, d := range devices {
		if f, ok := r.nodeRDMAFiles()[d.number]; ok {
			found = append(found, ContainerRDMAFile{In: d.path, RDMAFile: f})
		}
	}
	return found
}

// localAddresses are the addresses of the network namespace of a process.
func (r *Reader) localAddresses(pid int) (map[netip.Addr]bool, error) {
	addresses := map[netip.Addr]bool{}
	for name, read := range map[string]func(io.Reader, map[netip.Addr]bool) error{"fib_trie": procfs.LocalAddresses, "if_inet6": procfs.LocalIPv6Addresses} {
		f, err := r.proc.Open(fmt.Sprintf("%d/net/%s", pid, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // absent without the protocol
		}
		if err != nil {
			return nil, fmt.Errorf("addresses of the pod: net/%s: %w", name, err)
		}
		text := &io.LimitedReader{R: f, N: maxRoutes}
		err = read(text, addresses)
		if err == nil && text.N == 0 {
			err = fmt.Errorf("longer than %d bytes", maxRoutes)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("addresses of the pod: net/%s: %w", name, err)
		}
	}
	return addresses, nil
}

// limitedProcesses bounds how many processes of a container are asked for their limit.
const limitedProcesses = 64

// memlock is how much memory a container may lock: the greatest limit of its processes,
// since each may lower its own.
func (r *Reader) memlock(c *Container) (uint64, error) {
	most, known := uint64(0), false
	for _, p := range c.Processes[:min(len(c.Processes), limitedProcesses)] {
		dir := strconv.Itoa(p.PID)
		text, err := r.read(dir + "/limits")
		if ended(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("limits of process %d: %w", p.PID, err)
		}
		limit, err := procfs.ParseMemlock(text)
		if err != nil {
			return 0, fmt.Errorf("limits of process %d: %w", p.PID, err)
		}
		if limit != procfs.Unlimited {
			if text, err := r.read(dir + "/status"); err == nil && procfs.ParseLocksMemory(text) {
				limit = procfs.Unlimited
			}
		}
		if most, known = max(most, limit), true; most == procfs.Unlimited {
			return most, nil
		}
	}
	if !known {
		return 0, ErrGone
	}
	return most, nil
}

// inherited says whether a container's limit is that of the process that made it, the
// runtime's shim: the parent of its first process. Where that cannot be read, it says no.
func (r *Reader) inherited(c *Container, limit uint64) bool {
	for _, p := range c.Processes[:min(len(c.Processes), limitedProcesses)] {
		text, err := r.read(strconv.Itoa(p.PID) + "/status")
		if err != nil {
			continue
		}
		parent, err := procfs.ParseParent(text)
		if err != nil || slices.ContainsFunc(c.Processes, func(p Process) bool { return p.PID == parent }) {
			continue
		}
		if text, err = r.read(strconv.Itoa(parent) + "/limits"); err != nil {
			return false
		}
		shims, err := procfs.ParseMemlock(text)
		return err == nil && shims == limit
	}
	return false
}
