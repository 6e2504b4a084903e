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
	"time"

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
			found = append(found, rdmaPort{device: name, number: p.Number, gids: v.awaitGIDs(sys, name, p.Number, link, addresses)})
		}
	}
	return found, nil
}

// gidTime is how long, for all NICs, a view waits for GIDs: the kernel adds those of an address in
// its own time (drivers/infiniband/core/roce_gid_mgmt.c, gid_cache_wq), and what containers
// are told has to be known before they are created. A hook of the runtime has two seconds.
const (
	gidTime = 200 * time.Millisecond
	gidPoll = 10 * time.Millisecond
)

// awaitGIDs are a port's own GIDs, once there are any, where the kernel is to add some.
func (v *rdmaView) awaitGIDs(sys fs.FS, device string, port int, link *rtnl.Link, addresses []rtnl.Prefix) []sysfs.GID {
	for {
		all, _ := sysfs.ReadGIDs(sys, device, port) // one that cannot be read is none to choose
		own := ownGIDs(all, link, addresses)
		if len(own) > 0 || !willHaveGIDs(sys, device, port, all, link, addresses) {
			return own
		}
		if v.waitsUntil.IsZero() {
			v.waitsUntil = time.Now().Add(gidTime)
		}
		if time.Now().After(v.waitsUntil) {
			return own
		}
		time.Sleep(gidPoll)
	}
}

// willHaveGIDs says whether an interface with these addresses has GIDs by them sooner or
// later: of RoCE, where the table has room for any, and unless there is one of type RoCE v1,
// beside which the kernel adds the other at once.
func willHaveGIDs(sys fs.FS, device string, port int, all []sysfs.GID, link *rtnl.Link, addresses []rtnl.Prefix) bool {
	isGlobal := func(p rtnl.Prefix) bool { return p.Global }
	if link == nil || !slices.ContainsFunc(addresses, isGlobal) || slices.ContainsFunc(all, func(g sysfs.GID) bool { return isOwn(g, link, addresses) }) {
		return false
	}
	d, _ := sysfs.ReadRDMADevice(sys, device)
	if d == nil || d.NodeType == nil || *d.NodeType != "CA" || d.LinkLayer == nil || *d.LinkLayer != "Ethernet" {
		return false
	}
	table, err := fs.ReadDir(sys, fmt.Sprintf("class/infiniband/%s/ports/%d/gids", device, port))
	return err == nil && len(table) > 0
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

// ownGIDs are those GIDs of RoCE v2 that are global addresses of an interface, those of IPv4
// first.
func ownGIDs(all []sysfs.GID, link *rtnl.Link, addresses []rtnl.Prefix) []sysfs.GID {
	own := slices.DeleteFunc(slices.Clone(all), func(g sysfs.GID) bool {
		return !isOwn(g, link, addresses) || g.Type == nil || *g.Type != sysfs.RoCEv2
	})
	slices.SortStableFunc(own, func(a, b sysfs.GID) int { return cmp.Compare(a.Address.BitLen(), b.Address.BitLen()) })
	return own
}

// isOwn says whether a GID is a global address of an interface.
func isOwn(g sysfs.GID, link *rtnl.Link, addresses []rtnl.Prefix) bool {
	return link != nil && g.NetDevice != nil && *g.NetDevice == link.Name &&
		slices.ContainsFunc(addresses, func(a rtnl.Prefix) bool { return a.Global && a.Addr() == g.Address })
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
