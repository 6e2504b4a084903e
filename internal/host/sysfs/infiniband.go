// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/model"
)

// RDMADevice is one RDMA device (/sys/class/infiniband/*).
type RDMADevice struct {
	Name string
	// Device is the directory of the device it belongs to; nil when virtual.
	Device *string
	// PCI is the address of the nearest PCI function above; nil without one.
	PCI *model.PCIAddress
	// NetDevice is the interface a virtual RDMA device sits on: the attribute
	// parent (drivers/infiniband/sw/rxe), else that of the first GID.
	NetDevice *string
	// PortInterfaces are the interfaces that the GIDs of a hardware device's ports
	// name, by port. The kernel names those of other network namespaces, too.
	PortInterfaces []string
	// LinkLayer is ports/1/link_layer: InfiniBand or Ethernet.
	LinkLayer *string
	// NodeType is the word of node_type: CA, or RNIC for iWARP, whose GIDs are no
	// addresses (drivers/infiniband/core/sysfs.c, node_type_show).
	NodeType *string
	// CharDevices are its device files, such as /dev/infiniband/uverbs0, and
	// /dev/infiniband/rdma_cm which all RDMA devices share; sorted.
	CharDevices []string
}

const rdmaDir = "class/infiniband"

// ReadRDMADevices reads all RDMA devices.
func ReadRDMADevices(sys fs.FS) ([]RDMADevice, []Problem) {
	r := newReader(sys)
	entries := r.list(rdmaDir)
	if len(entries) == 0 {
		return nil, r.problems
	}
	files := r.rdmaFiles()
	devices := make([]RDMADevice, 0, len(entries))
	for _, e := range entries {
		name := path.Join(rdmaDir, e.Name())
		dir, err := r.link(name)
		if isGone(err) {
			continue
		}
		if err != nil {
			r.problem(name, fmt.Errorf("RDMA device left out: %w", err))
			continue
		}
		devices = append(devices, r.rdmaDevice(e.Name(), dir, files))
	}
	return devices, r.problems
}

// ReadRDMADevice reads one RDMA device, but for its files; nil where it is not there.
func ReadRDMADevice(sys fs.FS, name string) (*RDMADevice, []Problem) {
	r := newReader(sys)
	dir, err := r.link(path.Join(rdmaDir, name))
	if err != nil {
		if !isGone(err) {
			r.problem(path.Join(rdmaDir, name), err)
		}
		return nil, r.problems
	}
	d := r.rdmaDevice(name, dir, nil)
	return &d, r.problems
}

func (r *reader) rdmaDevice(name, dir string, files map[string][]string) RDMADevice {
	d := RDMADevice{Name: name, LinkLayer: r.text(dir + "/ports/1/link_layer"), NodeType: parsed(r, dir+"/node_type", parseNodeType)}
	if isVirtual(dir) {
		d.NetDevice = r.text(dir + "/parent")
		if d.NetDevice == nil {
			d.NetDevice = r.text(dir + "/ports/1/gid_attrs/ndevs/0")
		}
	} else {
		d.Device = classDevice(dir)
		d.PCI = pciOf(dir)
		for _, p := range r.rdmaPorts(dir) {
			if p.NetDevice != nil {
				d.PortInterfaces = append(d.PortInterfaces, *p.NetDevice)
			}
		}
	}
	d.CharDevices = slices.Concat(files[name], files[""])
	slices.Sort(d.CharDevices)
	return d
}

// RDMAPort is one port of an RDMA device (/sys/class/infiniband/*/ports/*).
type RDMAPort struct {
	Number int
	// State is the word of the attribute state, such as ACTIVE; nil when unknown.
	State *string
	// NetDevice is the interface of the port's first GID that has one
	// (gid_attrs/ndevs/*); nil for InfiniBand. It may be one of another network
	// namespace.
	NetDevice *string
}

// mostPorts is beyond any RDMA device's number of ports.
const mostPorts = 64

// ReadRDMAPorts reads the ports of an RDMA device, by number. Port 0 is a switch's
// management port.
func ReadRDMAPorts(sys fs.FS, device string) ([]RDMAPort, []Problem) {
	r := newReader(sys)
	dir, err := r.link(path.Join(rdmaDir, device))
	if err != nil {
		if !isGone(err) {
			r.problem(path.Join(rdmaDir, device), fmt.Errorf("ports left out: %w", err))
		}
		return nil, r.problems
	}
	return r.rdmaPorts(dir), r.problems
}

func (r *reader) rdmaPorts(dir string) []RDMAPort {
	var ports []RDMAPort
	for _, e := range r.list(dir + "/ports") {
		n, err := strconv.ParseUint(e.Name(), 10, 16)
		if err != nil || len(ports) == mostPorts {
			continue
		}
		port := dir + "/ports/" + e.Name()
		ports = append(ports, RDMAPort{Number: int(n), State: parsed(r, port+"/state", parsePortState), NetDevice: r.firstNetDevice(port + "/gid_attrs/ndevs")})
	}
	slices.SortFunc(ports, func(a, b RDMAPort) int { return cmp.Compare(a.Number, b.Number) })
	return ports
}

// firstNetDevice is that of the first GID that has one. Further GIDs, up to 256, are of
// interfaces above it, such as VLANs.
func (r *reader) firstNetDevice(dir string) *string {
	for _, e := range r.list(dir) {
		if name := r.text(path.Join(dir, e.Name())); name != nil {
			return name
		}
	}
	return nil
}

// RDMAFile is a character device of an RDMA device, or the connection manager's that
// all share.
type RDMAFile struct {
	// Path is such as /dev/infiniband/uverbs0.
	Path string
	// Kind is uverbs, umad, issm or rdma_cm.
	Kind string
	// RDMADevice is the name of the RDMA device; empty for rdma_cm.
	RDMADevice string
	// PCI is the function that it belongs to; nil without one.
	PCI *model.PCIAddress
	// Number is nil when unknown.
	Number *DeviceNumber
}

// DeviceNumber is the attribute dev of a device with a file.
type DeviceNumber struct{ Major, Minor int64 }

// ReadRDMAFiles reads the device files of all RDMA devices, whatever network namespace
// those are in: these classes are in none (drivers/infiniband/core/uverbs_main.c,
// uverbs_class).
func ReadRDMAFiles(sys fs.FS) ([]RDMAFile, []Problem) {
	r := newReader(sys)
	var files []RDMAFile
	for _, class := range []string{"class/infiniband_verbs", "class/infiniband_mad"} {
		for _, e := range r.list(class) {
			kind, ok := rdmaFileKind(e.Name())
			if e.Type().IsRegular() || !ok {
				continue // abi_version lies beside the devices
			}
			name := path.Join(class, e.Name())
			owner := r.text(name + "/ibdev")
			if owner == nil {
				continue
			}
			f := RDMAFile{Path: "/dev/infiniband/" + e.Name(), Kind: kind, RDMADevice: *owner, Number: parsed(r, name+"/dev", parseDeviceNumber)}
			if dir, err := r.link(name); err == nil {
				f.PCI = pciOf(dir)
			}
			files = append(files, f)
		}
	}
	if _, err := fs.Stat(r.sys, rdmaCM); err == nil {
		files = append(files, RDMAFile{Path: "/dev/infiniband/rdma_cm", Kind: "rdma_cm", Number: parsed(r, rdmaCM+"/dev", parseDeviceNumber)})
	}
	return files, r.problems
}

// RDMADeviceNow is the name that an RDMA device has by now, which was called name: of those
// that a namespace shows, by names, the one of a PCI function; empty where it is not among
// them. files are those of ReadRDMAFiles, of devices in all namespaces.
//
// A name is no identity: the kernel numbers devices in the order in which they come, rules
// of udev name them anew (rdma-core, kernel-boot/rdma_rename.c), and so does "rdma dev set".
// It is unique on the host (drivers/infiniband/core/device.c, ib_device_rename), and decides
// where the function cannot: of a device without function or without files, and among
// several of one function, such as those of subfunctions.
func RDMADeviceNow(files []RDMAFile, names []string, function *model.PCIAddress, name string) (string, error) {
	var own []string
	elsewhere := false
	for _, f := range files {
		switch {
		case function == nil || f.PCI == nil:
		case *f.PCI != *function:
			elsewhere = elsewhere || f.RDMADevice == name
		case !slices.Contains(own, f.RDMADevice):
			own = append(own, f.RDMADevice)
		}
	}
	now := name
	switch {
	case slices.Contains(own, name):
	case len(own) == 1:
		now = own[0]
	case len(own) > 1:
		return "", fmt.Errorf("function %s has the RDMA devices %s by now, and none is called %s", function, strings.Join(own, ", "), name)
	case elsewhere:
		return "", nil
	}
	if !slices.Contains(names, now) {
		return "", nil
	}
	return now, nil
}

// rdmaCM is the connection manager, a misc device (drivers/infiniband/core/ucma.c).
const rdmaCM = "class/misc/rdma_cm"

// rdmaFiles are the paths of device files by the name of their RDMA device; those that
// all devices share are under "".
func (r *reader) rdmaFiles() map[string][]string {
	files := map[string][]string{}
	list, problems := ReadRDMAFiles(r.sys)
	r.problems = append(r.problems, problems...)
	for _, f := range list {
		files[f.RDMADevice] = append(files[f.RDMADevice], f.Path)
	}
	return files
}

func rdmaFileKind(name string) (string, bool) {
	for _, kind := range []string{"uverbs", "umad", "issm"} {
		if strings.HasPrefix(name, kind) {
			return kind, true
		}
	}
	return "", false
}

// GID is one entry of a port's GID table that is in use.
type GID struct {
	// Index is the entry's number, by which a program chooses it.
	Index int
	// Address is the GID: of RoCE v2 the interface's address, an IPv4 one as such.
	Address netip.Addr
	// Type is RoCE v2 or IB/RoCE v1; nil when unknown.
	Type *string
	// NetDevice is the interface that the address is on; nil for InfiniBand.
	NetDevice *string
}

// RoCEv2 is the type of the GIDs that go by IP addresses (drivers/infiniband/core/cache.c,
// gid_type_str).
const RoCEv2 = "RoCE v2"

// mostGIDs is beyond any GID table; that of rxe has 1024 entries.
const mostGIDs = 4096

// ReadGIDs reads the GIDs of a port that are not zero, by index
// (/sys/class/infiniband/*/ports/*/gids, gid_attrs).
func ReadGIDs(sys fs.FS, device string, port int) ([]GID, []Problem) {
	r := newReader(sys)
	dir := path.Join(rdmaDir, device, "ports", strconv.Itoa(port))
	var gids []GID
	for _, e := range r.list(dir + "/gids") {
		index, err := strconv.ParseUint(e.Name(), 10, 16)
		if err != nil || index >= mostGIDs {
			continue
		}
		address := parsed(r, dir+"/gids/"+e.Name(), parseGID)
		if address == nil {
			continue
		}
		gids = append(gids, GID{
			Index: int(index), Address: *address,
			Type: r.text(dir + "/gid_attrs/types/" + e.Name()), NetDevice: r.text(dir + "/gid_attrs/ndevs/" + e.Name()),
		})
	}
	slices.SortFunc(gids, func(a, b GID) int { return cmp.Compare(a.Index, b.Index) })
	return gids, r.problems
}
