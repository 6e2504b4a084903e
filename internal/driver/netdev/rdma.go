// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// rdmaSystem is the kernel's RDMA subsystem. It is a test's where the kernel has none.
type rdmaSystem interface {
	Mode(namespace int) (rdma.Mode, error)
	Devices(namespace int) ([]rdma.Device, error)
	On(namespace, ifindex int) ([]rdma.Device, error)
	Move(from int, name string, to int) error
	AddSoftware(namespace int, name, kind, ifname string) error
}

type kernelRDMA struct{}

func (kernelRDMA) Mode(namespace int) (rdma.Mode, error) { return rdma.NamespaceMode(namespace) }

func (kernelRDMA) Devices(namespace int) ([]rdma.Device, error) { return rdma.Devices(namespace) }

func (kernelRDMA) On(namespace, ifindex int) ([]rdma.Device, error) {
	return rdma.On(namespace, ifindex)
}

func (kernelRDMA) Move(from int, name string, to int) error { return rdma.Move(from, name, to) }

func (kernelRDMA) AddSoftware(namespace int, name, kind, ifname string) error {
	return rdma.AddSoftware(namespace, name, kind, ifname)
}

// refuseHalf refuses to move an RDMA device with several ports from under the interface of
// another port that does not go with it: the device is in one network namespace with all of
// its ports, and serves no interface of another one (drivers/infiniband/core/device.c,
// rdma_dev_change_netns). The inventory gives such a device to the first port's NIC.
func (p planner) refuseHalf(plan *Plan) error {
	if plan.RDMA == nil || !plan.RDMA.Exclusive || plan.NIC.PCI == nil {
		return nil
	}
	var errs []error
	for i := range p.m.NICs {
		other := &p.m.NICs[i]
		if other.PCI == nil || *other.PCI != *plan.NIC.PCI || other.Interface == nil || other.RDMA != nil {
			continue
		}
		device := slicecodec.NICName(*other)
		if place := p.elsewhere(device); place != "" {
			errs = append(errs, fmt.Errorf("RDMA device %s: its other port is interface %s, device %s, which %s: want both in one claim, or a node in mode shared (rdma system set netns shared)",
				plan.NIC.RDMA.Name, other.Interface.Name, device, place))
		}
	}
	return errors.Join(errs...)
}

// elsewhere says where a NIC stays that does not go with the claim; empty where it does.
func (p planner) elsewhere(device string) string {
	isIt := func(name string) bool {
		nic := slicecodec.FindNIC(p.m, name)
		return nic != nil && slicecodec.NICName(*nic) == device
	}
	if slices.ContainsFunc(p.claim.Devices, func(a driver.Allocation) bool { return a.ShareID == nil && !a.AdminAccess && isIt(a.Device) }) {
		return ""
	}
	for _, d := range p.held {
		if d.claim.UID != p.claim.UID && !d.AdminAccess && isIt(d.Device) {
			return fmt.Sprintf("claim %s holds", d.claim)
		}
	}
	return "stays on the host"
}

// managementFiles are the kinds of management device files, umad and issm, that a
// configuration asks for: they can reconfigure the fabric, and stay outside unless they
// are asked for. Those of a software device are not known before it is made in the pod.
func managementFiles(dev *model.RDMADevice, c *v1alpha1.NetworkConfig) ([]string, error) {
	if dev == nil || c == nil || c.RDMA == nil {
		return nil, nil
	}
	var kinds []string
	var errs []error
	for _, f := range []struct {
		kind  string
		asked *bool
	}{{"umad", c.RDMA.UMAD}, {"issm", c.RDMA.ISSM}} {
		if f.asked == nil || !*f.asked {
			continue
		}
		if dev.Software || !slices.ContainsFunc(dev.CharDevices, func(p string) bool { return isKind(p, f.kind) }) {
			errs = append(errs, lacksFile(dev.Name, f.kind))
		}
		kinds = append(kinds, f.kind)
	}
	return kinds, errors.Join(errs...)
}

// fileEdits are the files of an RDMA device that stays as it is: its verbs, the management
// files that are asked for, and the connection manager's. A container gets them by CDI,
// so that it starts without an agent, too. Those of any other RDMA device are known when
// the container is created (ContainerEdits).
func fileEdits(plan Plan) driver.Edits {
	var e driver.Edits
	if !plan.staysShared() {
		return e
	}
	wanted := append([]string{verbsFile, rdmaCMFile}, plan.ManagementFiles...)
	for _, p := range plan.NIC.RDMA.CharDevices {
		if slices.ContainsFunc(wanted, func(kind string) bool { return isKind(p, kind) }) {
			e.DeviceNodes = append(e.DeviceNodes, driver.DeviceNode{Path: p, Permissions: "rw"})
		}
	}
	return e
}

// staysShared says whether the plan's RDMA device is one that every namespace sees: it is
// hardware, of which the move of its interface changes nothing, or that of a NIC that stays
// on the host.
func (p Plan) staysShared() bool {
	return p.NIC.RDMA != nil && (p.Child != nil || !p.NIC.RDMA.Software && (p.RDMA == nil || !p.RDMA.Exclusive))
}

func lacksFile(device, kind string) error {
	return fmt.Errorf("rdma.%[1]s: device %[2]s has no %[1]s file: leave it out", kind, device)
}

func isKind(file, kind string) bool { return strings.HasPrefix(path.Base(file), kind) }

// MemlockFor says whether the record holds an RDMA device: its user pins the
// memory that the device reads and writes, far beyond the usual limit.
func (d *Driver) MemlockFor(r driver.Record) bool {
	return slices.ContainsFunc(r.Devices, func(dev driver.DeviceRecord) bool {
		plan, err := readBrief(dev)
		return err == nil && !dev.AdminAccess && plan.NIC.RDMA != nil
	})
}

// rdmaIn is the name that the RDMA device of a function has by now in a namespace, of a
// device that was called name; empty where it is not there.
func (d *Driver) rdmaIn(namespace int, function *model.PCIAddress, name string) (string, error) {
	there, err := d.rdma.Devices(namespace)
	if err != nil {
		return "", err
	}
	var names []string
	for _, dev := range there {
		names = append(names, dev.Name)
	}
	files, _ := sysfs.ReadRDMAFiles(d.sys) // of a device without any the name decides
	return sysfs.RDMADeviceNow(files, names, function, name)
}

// toPod moves the RDMA device of a plan into the pod, where the node shows each in one
// namespace only, and says whether it did. The mode may be another one than it was when
// the claim was prepared: no pod had a network namespace then, or the kernel would have
// refused to change it.
func (d *Driver) toPod(plan Plan, pod int) (moved bool, err error) {
	dev := plan.NIC.RDMA
	if dev == nil || dev.Software && plan.Child == nil {
		return false, nil
	}
	mode, err := d.rdma.Mode(d.host.Fd())
	switch {
	case errors.Is(err, rdma.ErrNone) && plan.RDMA == nil:
		return false, nil
	case err != nil || mode == rdma.Shared:
		return false, err
	}
	if in, err := d.rdmaIn(pod, plan.NIC.PCI, dev.Name); err != nil || in != "" {
		return false, err
	}
	if plan.RDMA == nil || !plan.RDMA.Exclusive {
		return false, errors.New("RDMA devices were shared by network namespaces as the claim was prepared, and are in one each by now " +
			"(rdma system set netns exclusive): delete the pod, so that its claim is prepared anew")
	}
	now, err := d.rdmaIn(d.host.Fd(), plan.NIC.PCI, dev.Name)
	if err != nil {
		return false, err
	}
	if now == "" {
		return false, errors.New("it is neither on the host nor in the pod")
	}
	if err := d.rdma.Move(d.host.Fd(), now, pod); err != nil {
		return true, err // it may be on its way
	}
	d.host.Step()
	return true, nil
}

// fromPod moves the RDMA device of a plan back to the host. It is no error when it is
// there already, or was made to be in every namespace meanwhile.
func (d *Driver) fromPod(plan Plan, pod int) error {
	if plan.RDMA == nil || !plan.RDMA.Exclusive {
		return nil
	}
	mode, err := d.rdma.Mode(pod)
	if errors.Is(err, rdma.ErrNone) || err == nil && mode == rdma.Shared {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := d.rdmaIn(pod, plan.NIC.PCI, plan.RDMA.Name)
	if err != nil || now == "" {
		return err
	}
	if err := d.rdma.Move(pod, now, d.host.Fd()); err != nil {
		return err
	}
	d.host.Step()
	return nil
}

// awaitRDMA waits until the RDMA devices of plans are back on the host. The kernel
// returns those of a namespace that ends in its own time (drivers/infiniband/core/device.c,
// rdma_dev_exit_net).
func (d *Driver) awaitRDMA(ctx context.Context, plans []Plan) error {
	ctx, cancel := context.WithTimeout(ctx, returnTime)
	defer cancel()
	var errs []error
	for _, plan := range plans {
		if plan.RDMA != nil && plan.RDMA.Exclusive {
			errs = append(errs, d.awaitRDMADevice(ctx, plan))
		}
	}
	return errors.Join(errs...)
}

func (d *Driver) awaitRDMADevice(ctx context.Context, plan Plan) error {
	for {
		now, err := d.rdmaIn(d.host.Fd(), plan.NIC.PCI, plan.RDMA.Name)
		switch {
		case err != nil || now == plan.RDMA.Name:
			return err
		case now != "":
			klog.FromContext(ctx).Info("RDMA device is back on the host under another name", "name", now, "before", plan.RDMA.Name, "function", plan.NIC.PCI.String())
			return nil
		case plan.NIC.PCI != nil && !exists(d.sys, "bus/pci/devices/"+plan.NIC.PCI.String()):
			return driver.GoneError{Err: fmt.Errorf("RDMA device %s is gone with its function %s", plan.RDMA.Name, plan.NIC.PCI)}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("RDMA device %s has not come back to the host", plan.RDMA.Name)
		case <-time.After(returnPoll):
		}
	}
}

// remakeRDMA creates a software RDMA device again, which the kernel deleted when
// its interface moved.
func (d *Driver) remakeRDMA(plan Plan) error {
	if plan.RDMA == nil || plan.RDMA.Software == "" {
		return nil
	}
	if err := d.rdma.AddSoftware(d.host.Fd(), plan.RDMA.Name, plan.RDMA.Software, plan.Host.Name); err != nil {
		return err
	}
	d.host.Step()
	return nil
}
