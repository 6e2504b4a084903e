// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// rdmaPort is a port of an RDMA device that is a NIC's in a pod.
type rdmaPort struct {
	device string
	number int
	// gids are the port's RoCE v2 GIDs that are addresses of the NIC's interface, those of
	// IPv4 first.
	gids []sysfs.GID
}

// portsOf are the ports of a plan's RDMA devices in the pod; none without an RDMA device.
// link and addresses are those of the plan's interface in the pod, nil without one.
func (v *rdmaView) portsOf(plan Plan, link *rtnl.Link, addresses []rtnl.Prefix) ([]rdmaPort, error) {
	if plan.NIC.RDMA == nil {
		return nil, nil
	}
	if err := v.open(); err != nil {
		return nil, err
	}
	names, err := v.namesOf(plan)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	sys, closeSys, err := v.podSys(v.conn.Fd())
	if err != nil {
		return nil, err
	}
	defer closeSys()
	var found []rdmaPort
	for _, name := range names {
		ports, problems := sysfs.ReadRDMAPorts(sys, name)
		if len(ports) == 0 {
			return nil, errors.Join(append(errorsOf(problems), fmt.Errorf("RDMA device %s: the pod's /sys names no port of it", name))...)
		}
		for _, p := range ownPorts(ports, plan, link) {
			found = append(found, rdmaPort{device: name, number: p.Number, gids: gidsOf(sys, name, p.Number, link, addresses)})
		}
	}
	return found, nil
}

func errorsOf(problems []sysfs.Problem) []error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, p.Err)
	}
	return errs
}

// ownPorts are the ports of an RDMA device that are a NIC's. A device with several ports
// has an interface for each: RoCE's GIDs name it, and of InfiniBand dev_port does
// (model.NIC.Port), which counts from zero. A NIC without interface is the whole device.
func ownPorts(ports []sysfs.RDMAPort, plan Plan, link *rtnl.Link) []sysfs.RDMAPort {
	if len(ports) == 1 || link == nil {
		return ports
	}
	var own []sysfs.RDMAPort
	for _, p := range ports {
		if p.NetDevice != nil && *p.NetDevice == link.Name {
			own = append(own, p)
		}
	}
	if len(own) > 0 {
		return own
	}
	number := 1
	if plan.NIC.Port != nil {
		if at, err := strconv.Atoi(strings.TrimPrefix(*plan.NIC.Port, "p")); err == nil {
			number = at + 1
		}
	}
	for _, p := range ports {
		if p.Number == number {
			own = append(own, p)
		}
	}
	return own
}

// gidsOf are a port's RoCE v2 GIDs that are global addresses of an interface, those of
// IPv4 first.
func gidsOf(sys fs.FS, device string, port int, link *rtnl.Link, addresses []rtnl.Prefix) []sysfs.GID {
	if link == nil {
		return nil
	}
	all, _ := sysfs.ReadGIDs(sys, device, port) // one that cannot be read is none to choose
	own := slices.DeleteFunc(all, func(g sysfs.GID) bool {
		of := g.NetDevice != nil && *g.NetDevice == link.Name && g.Type != nil && *g.Type == sysfs.RoCEv2
		return !of || !slices.ContainsFunc(addresses, func(a rtnl.Prefix) bool { return a.Global && a.Addr() == g.Address })
	})
	slices.SortStableFunc(own, func(a, b sysfs.GID) int { return cmp.Compare(a.Address.BitLen(), b.Address.BitLen()) })
	return own
}

// openSys opens /sys as a network namespace shows it.
func openSys(namespace int) (fs.FS, func(), error) {
	dir, err := sysfs.OpenNamespace(namespace)
	if err != nil {
		return nil, nil, err
	}
	return dir, func() { _ = dir.Close() }, nil // nothing was written
}

// attributes are what is known of a plan's RDMA device in the pod: its name there, and
// the GID that programs choose. One that is not known has no value.
func (v *rdmaView) attributes(plan Plan, link *rtnl.Link, addresses []rtnl.Prefix) (map[string]model.Attribute, error) {
	if plan.NIC.RDMA == nil {
		return nil, nil
	}
	told := map[string]model.Attribute{slicecodec.AttrRDMADevice: {}, slicecodec.AttrGID: {}, slicecodec.AttrGIDIndex: {}}
	ports, err := v.portsOf(plan, link, addresses)
	if err != nil || len(ports) == 0 {
		return told, err
	}
	told[slicecodec.AttrRDMADevice] = model.TextAttribute(ports[0].device)
	if gids := ports[0].gids; len(gids) > 0 {
		told[slicecodec.AttrGID] = model.TextAttribute(gidText(gids[0]))
		told[slicecodec.AttrGIDIndex] = model.NumberAttribute(int64(gids[0].Index))
	}
	return told, nil
}

// gidText is a GID as tools write it: an IPv4 address within IPv6.
func gidText(g sysfs.GID) string {
	if g.Address.Is4() {
		return "::ffff:" + g.Address.String()
	}
	return g.Address.String()
}
