// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysfs"
)

const (
	verbsFile  = "uverbs"
	rdmaCMFile = "rdma_cm"
)

// ContainerEdits are what the container is told for NCCL, where it asks for that, what its
// classes give it of the host, and the device files of those RDMA devices of the records that
// CDI has not given, as they are by now: a device that has moved to another network namespace,
// or was made again in the pod, may have other files than it had on the host.
func (d *Driver) ContainerEdits(ctx context.Context, held []driver.Record, netnsPath string) (driver.ContainerEdits, error) {
	var e driver.ContainerEdits
	v := &rdmaView{Driver: d, path: netnsPath}
	defer v.close()
	for _, r := range held {
		for _, dev := range r.Devices {
			plan, err := readBrief(dev)
			if err == nil && !dev.AdminAccess && plan.NIC.RDMA != nil && !plan.staysShared() && ctx.Err() == nil {
				var files []driver.CharDevice
				files, err = v.filesOf(plan)
				e.CharDevices = append(e.CharDevices, files...)
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return driver.ContainerEdits{}, fmt.Errorf("claim %s, device %s: %w", r.Claim, dev.Device, err)
			}
		}
	}
	told, err := v.environment(held)
	if err != nil {
		return driver.ContainerEdits{}, err
	}
	e.Env, e.Files, e.Notes = told.Env, told.Files, told.Notes
	mounts, env, err := hostParts(held)
	if err != nil {
		return driver.ContainerEdits{}, err
	}
	e.Mounts, e.Env = mounts, append(e.Env, env...)
	return e, nil
}

// rdmaView is what a pod sees of RDMA, read when it is needed first.
type rdmaView struct {
	*Driver
	path  string
	conn  *nslink.NetNSConn
	files []sysfs.RDMAFile
	// waitsUntil is until when it waits for GIDs; zero where it has not waited yet.
	waitsUntil time.Time
}

func (v *rdmaView) open() error {
	if v.conn != nil {
		return nil
	}
	v.files, _ = sysfs.ReadRDMAFiles(v.sys) // a file that cannot be read is missed below
	if v.path == "" {
		v.conn = v.host.NetNSConn
		return nil
	}
	conn, err := nslink.Open(v.path)
	if err != nil {
		return err
	}
	conn.Limit(rtnl.PodEntries)
	v.conn = conn
	return nil
}

func (v *rdmaView) close() {
	if v.conn != nil && v.path != "" {
		v.conn.Close()
	}
}

// filesOf are the device files of a plan's RDMA device, and the connection manager where
// the node has one and it works.
func (v *rdmaView) filesOf(plan Plan) ([]driver.CharDevice, error) {
	if err := v.open(); err != nil {
		return nil, err
	}
	names, err := v.namesOf(plan)
	if err != nil {
		return nil, err
	}
	var files []driver.CharDevice
	for _, name := range names {
		own, err := v.filesNamed(name, plan)
		if err != nil {
			return nil, fmt.Errorf("RDMA device %s: %w", name, err)
		}
		files = append(files, own...)
	}
	if len(files) == 0 {
		return nil, nil
	}
	if works, err := v.connectionManagerWorks(plan); err != nil || !works {
		return files, err
	}
	for _, f := range v.files {
		if f.Kind == rdmaCMFile {
			file, err := charDevice(f)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	return files, nil
}

// namesOf are the RDMA devices of a plan in the pod. Hardware is known by its function. A
// software device ended as its interface moved: what somebody has made on the interface
// since is the pod's, by whatever name, and none is no error.
func (v *rdmaView) namesOf(plan Plan) ([]string, error) {
	if !plan.NIC.RDMA.Software || plan.Child != nil {
		now, err := v.rdmaIn(v.conn.Fd(), plan.NIC.PCI, plan.NIC.RDMA.Name)
		if err == nil && now == "" {
			err = fmt.Errorf("RDMA device %s is not in the pod's network namespace", plan.NIC.RDMA.Name)
		}
		if err != nil {
			return nil, err
		}
		return []string{now}, nil
	}
	if plan.Pod == nil {
		return nil, nil
	}
	links, err := nslink.LinksOf(v.conn.Conn, plan.identity())
	if err != nil {
		return nil, err
	}
	link, err := plan.identity().Find(links)
	if err != nil || link == nil {
		return nil, err
	}
	on, err := v.rdma.On(v.conn.Fd(), link.Index)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, dev := range on {
		names = append(names, dev.Name)
	}
	return names, nil
}

// filesNamed are the verbs of an RDMA device, and the management files that were asked
// for. A name may be another device's by now: the function decides.
func (v *rdmaView) filesNamed(name string, plan Plan) ([]driver.CharDevice, error) {
	wanted := append([]string{verbsFile}, plan.ManagementFiles...)
	var files []driver.CharDevice
	for _, kind := range wanted {
		found := false
		for _, f := range v.files {
			if f.RDMADevice != name || f.Kind != kind {
				continue
			}
			if !plan.NIC.RDMA.Software && plan.NIC.PCI != nil && f.PCI != nil && *f.PCI != *plan.NIC.PCI {
				return nil, fmt.Errorf("%s belongs to function %s, and the claim's NIC is %s", f.Path, f.PCI, plan.NIC.PCI)
			}
			file, err := charDevice(f)
			if err != nil {
				return nil, err
			}
			files, found = append(files, file), true
		}
		switch {
		case found:
		case kind != verbsFile:
			return nil, lacksFile(name, kind)
		case slices.ContainsFunc(plan.NIC.RDMA.CharDevices, func(p string) bool { return isKind(p, verbsFile) }):
			return nil, errors.New("it has no file of verbs any more: want the kernel module ib_uverbs")
		}
	}
	return files, nil
}

// connectionManagerWorks is not so of a software device that one network namespace alone
// sees: there the kernel makes no queue pair for its management datagrams ("Couldn't
// create ib_mad QP1", drivers/infiniband/core/mad.c).
func (v *rdmaView) connectionManagerWorks(plan Plan) (bool, error) {
	if !plan.NIC.RDMA.Software {
		return true, nil
	}
	mode, err := v.rdma.Mode(v.conn.Fd())
	return mode == rdma.Shared, err
}

// charDevice is a file with the permissions that the kernel gives it
// (drivers/infiniband/core/uverbs_main.c, user_mad.c, ucma.c).
func charDevice(f sysfs.RDMAFile) (driver.CharDevice, error) {
	if f.Number == nil {
		return driver.CharDevice{}, fmt.Errorf("the kernel does not say the numbers of %s", f.Path)
	}
	mode := uint32(0o600)
	if f.Kind == verbsFile || f.Kind == rdmaCMFile {
		mode = 0o666
	}
	return driver.CharDevice{Path: f.Path, Major: f.Number.Major, Minor: f.Number.Minor, Mode: mode}, nil
}
