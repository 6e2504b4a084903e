// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"cmp"
	"fmt"
	"io/fs"
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
	// LinkLayer is ports/1/link_layer: InfiniBand or Ethernet.
	LinkLayer *string
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

func (r *reader) rdmaDevice(name, dir string, files map[string][]string) RDMADevice {
	d := RDMADevice{Name: name, LinkLayer: r.text(dir + "/ports/1/link_layer")}
	if isVirtual(dir) {
		d.NetDevice = r.text(dir + "/parent")
		if d.NetDevice == nil {
			d.NetDevice = r.text(dir + "/ports/1/gid_attrs/ndevs/0")
		}
	} else {
		d.Device = classDevice(dir)
		d.PCI = pciOf(dir)
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
	return ports, r.problems
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

// rdmaFiles are the device files by the name of their RDMA device; those that all
// devices share are under "".
func (r *reader) rdmaFiles() map[string][]string {
	files := map[string][]string{}
	for _, class := range []string{"class/infiniband_verbs", "class/infiniband_mad"} {
		for _, e := range r.list(class) {
			if e.Type().IsRegular() || !isRDMAFile(e.Name()) {
				continue // abi_version lies beside the devices
			}
			if owner := r.text(path.Join(class, e.Name(), "ibdev")); owner != nil {
				files[*owner] = append(files[*owner], "/dev/infiniband/"+e.Name())
			}
		}
	}
	if _, err := fs.Stat(r.sys, "class/misc/rdma_cm"); err == nil {
		files[""] = []string{"/dev/infiniband/rdma_cm"}
	}
	return files
}

func isRDMAFile(name string) bool {
	return strings.HasPrefix(name, "uverbs") || strings.HasPrefix(name, "umad") || strings.HasPrefix(name, "issm")
}
