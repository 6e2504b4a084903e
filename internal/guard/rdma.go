// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// RDMA is the RDMA device of a device of a claim.
type RDMA struct {
	// Device is the name that it had when the claim was prepared; empty for one made of
	// software, which is what somebody has made on the interface in the pod, or nothing.
	Device string `json:"device,omitempty"`
	// Function is its PCI function, such as 0000:91:00.0, by which it is found under any
	// name; empty where it has none.
	Function string `json:"function,omitempty"`
	// Marker is the variable by which a container shows that it has the device.
	Marker string `json:"marker"`
}

// kernel is what the guard asks of RDMA in a namespace.
type kernel struct {
	// sys shows /sys as a namespace sees it.
	sys func(namespace int) (fs.FS, func(), error)
	// on lists the RDMA devices on an interface of a namespace.
	on func(namespace, ifindex int) ([]rdma.Device, error)
}

func (k kernel) orReal() kernel {
	if k.sys == nil {
		k.sys = func(namespace int) (fs.FS, func(), error) {
			dir, err := sysfs.OpenNamespace(namespace)
			if err != nil {
				return nil, nil, err
			}
			return dir, func() { _ = dir.Close() }, nil
		}
	}
	if k.on == nil {
		k.on = rdma.On
	}
	return k
}

// lacksRDMA says what a container lacks of the RDMA devices that it was given: the device
// itself, its file of verbs, a GID of the interface's address. A container that has
// none of the devices lacks nothing.
func (o Options) lacksRDMA(s state, wants []Want) (lacks []string, err error) {
	wants = slices.DeleteFunc(slices.Clone(wants), func(w Want) bool { return w.RDMA == nil })
	if len(wants) == 0 || s.Bundle == "" {
		return nil, nil
	}
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	ns, err := netns.Open(filepath.Join(o.ProcRoot, strconv.Itoa(s.PID), "ns", "net"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ns.Close()) }()
	kernel := o.kernel.orReal()
	sys, done, err := kernel.sys(ns.Fd())
	if err != nil {
		// What the pod sees cannot be told on this host (Linux before 5.2): nothing speaks
		// against the container.
		return nil, nil //nolint:nilerr // unknown is no reason
	}
	defer done()
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.Limit(rtnl.PodEntries)
	l := look{kernel: kernel, namespace: ns.Fd(), sys: sys, conn: conn, config: config}
	l.files, _ = sysfs.ReadRDMAFiles(sys)
	l.devices = sync.OnceValue(func() []sysfs.RDMADevice {
		devices, _ := sysfs.ReadRDMADevices(sys)
		return devices
	})
	for _, w := range wants {
		if !slices.Contains(config.Process.Env, w.RDMA.Marker) {
			continue
		}
		problem, err := l.lacks(w)
		if err != nil {
			return nil, fmt.Errorf("device %s of claim %s: %w", w.Device, w.Claim, err)
		}
		if problem != "" {
			lacks = append(lacks, fmt.Sprintf("device %s of claim %s: %s", w.Device, w.Claim, problem))
		}
	}
	return lacks, nil
}

// look is one look at RDMA in a container's namespace.
type look struct {
	kernel
	namespace int
	sys       fs.FS
	conn      *rtnl.Conn
	files     []sysfs.RDMAFile
	// devices are read once: a pod sees those of all virtual functions.
	devices func() []sysfs.RDMADevice
	config  ociConfig
}

func (l look) lacks(w Want) (string, error) {
	link, err := l.linkOf(w)
	if err != nil {
		return "", err
	}
	names, problem, err := l.namesOf(w, link)
	if problem != "" || err != nil {
		return problem, err
	}
	for _, name := range names {
		problem, err = l.lacksOf(name, link)
		if problem != "" || err != nil {
			return problem, err
		}
	}
	return "", nil
}

// namesOf are the RDMA devices of a device in the namespace, by the names that they have by
// now, or what is wrong with them.
func (l look) namesOf(w Want, link *rtnl.Link) (names []string, problem string, err error) {
	if w.RDMA.Device == "" {
		var on []rdma.Device
		if link != nil {
			on, err = l.on(l.namespace, link.Index)
		}
		for _, d := range on {
			names = append(names, d.Name)
		}
		return names, "", err
	}
	there, _ := fs.ReadDir(l.sys, "class/infiniband") // none is there where it cannot be read
	for _, e := range there {
		names = append(names, e.Name())
	}
	now, err := sysfs.RDMADeviceNow(l.files, names, w.RDMA.function(), w.RDMA.Device)
	if err == nil && now == "" {
		problem = fmt.Sprintf("RDMA device %s is not in the pod's network namespace", w.RDMA.Device)
	}
	return []string{now}, problem, err
}

// function is nil where it is not known: an older agent wrote none.
func (r RDMA) function() *model.PCIAddress {
	a, err := model.ParsePCIAddress(r.Function)
	if err != nil {
		return nil
	}
	return &a
}

// linkOf is the interface of a device in the namespace; nil where it has none, or it is
// not there, which Missing says.
func (l look) linkOf(w Want) (*rtnl.Link, error) {
	if w.NIC == nil {
		return nil, nil
	}
	links, err := nslink.LinksOf(l.conn, w.NIC.identity())
	if err != nil {
		return nil, err
	}
	return w.NIC.identity().Find(links)
}

func (l look) lacksOf(name string, link *rtnl.Link) (string, error) {
	usable := false
	for _, f := range l.files {
		if f.RDMADevice != name || f.Kind != "uverbs" || f.Number == nil {
			continue
		}
		if usable = true; !l.config.has(f) {
			return "", permanentError{fmt.Errorf("the container has no file %s of RDMA device %s: the node's plumbline-agent was not asked as it was created", f.Path, name)}
		}
	}
	if !usable || link == nil {
		return "", nil
	}
	return l.lacksGID(name, link)
}

// lacksGID looks for a RoCE v2 GID of one of the interface's addresses, by which every
// connection is made. The kernel adds it some time after the address
// (drivers/infiniband/core/roce_gid_mgmt.c).
func (l look) lacksGID(name string, link *rtnl.Link) (string, error) {
	prefixes, err := l.conn.PrefixesOf(link.Index)
	if err != nil {
		return "", err
	}
	var addresses []netip.Addr
	for _, p := range prefixes {
		if p.Global {
			addresses = append(addresses, p.Addr())
		}
	}
	gids, roce := l.gidsOf(name)
	if !roce || len(addresses) == 0 {
		return "", nil
	}
	var others []string
	for _, g := range gids {
		if !slices.Contains(addresses, g.Address) || g.NetDevice != nil && *g.NetDevice != link.Name || g.Type == nil {
			continue
		}
		if *g.Type == sysfs.RoCEv2 {
			return "", nil
		}
		others = append(others, fmt.Sprintf("%s of type %s", g.Address, *g.Type))
	}
	problem := fmt.Sprintf("RDMA device %s has no RoCE v2 GID of %s of interface %s", name, joined(addresses), link.Name)
	if len(others) > 0 {
		problem += ", only " + strings.Join(others, ", ")
	}
	return problem, nil
}

// gidsOf are the GIDs of all ports; roce is false where GIDs are no addresses: on
// InfiniBand and iWARP, on devices that do not say, and where the table has no entries,
// as RoCE is switched off.
func (l look) gidsOf(name string) (gids []sysfs.GID, roce bool) {
	devices := l.devices()
	i := slices.IndexFunc(devices, func(d sysfs.RDMADevice) bool { return d.Name == name })
	if i < 0 || devices[i].NodeType == nil || *devices[i].NodeType != "CA" || devices[i].LinkLayer == nil || *devices[i].LinkLayer != "Ethernet" {
		return nil, false
	}
	ports, _ := sysfs.ReadRDMAPorts(l.sys, name)
	for _, p := range ports {
		table, err := fs.ReadDir(l.sys, fmt.Sprintf("class/infiniband/%s/ports/%d/gids", name, p.Number))
		roce = roce || err == nil && len(table) > 0
		found, _ := sysfs.ReadGIDs(l.sys, name, p.Number)
		gids = append(gids, found...)
	}
	return gids, roce
}

func joined(addresses []netip.Addr) string {
	var words []string
	for _, a := range addresses {
		words = append(words, a.String())
	}
	return strings.Join(words, " or ")
}

// permanentError is a problem that no wait mends.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }
