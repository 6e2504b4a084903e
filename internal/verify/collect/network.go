// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/procfs"
	"plumbline.dev/plumbline/internal/model"
)

// network are the interfaces of a pod, as one container shows them.
func (r *Reader) network(c *Container, v *view) Network {
	interfaces, err := []Interface(nil), v.linksErr
	if err == nil {
		interfaces, err = r.interfaces(c.Processes[0].PID, v.links)
	}
	if err != nil {
		return Network{Err: fmt.Errorf("interfaces as container %s sees them: %w", c.Name, err)}
	}
	return Network{Interfaces: interfaces}
}

// interfaces finds the PCI functions of interfaces.
func (r *Reader) interfaces(pid int, links []link) ([]Interface, error) {
	var found []Interface
	for _, l := range links {
		i := Interface{Name: l.name, PCI: pciOf(l.target)}
		if i.PCI == nil {
			if i.MAC = l.mac; l.below != 0 {
				i.PCI = r.hostInterface(l.below)
				i.Above = i.PCI != nil
			}
			if l.alias != "" {
				i.Link = &Link{Alias: l.alias, Kind: l.kind, Parent: r.hostName(l.below), Up: l.up}
			}
		}
		found = append(found, i)
	}
	if err := r.tags(pid, found); err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b Interface) int { return cmp.Compare(a.Name, b.Name) })
	// Most pods have no NIC, and then it is not needed.
	if !slices.ContainsFunc(found, func(i Interface) bool { return i.PCI != nil }) {
		return found, nil
	}
	defaults, err := r.defaultRoutes(pid)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].Default = found[i].PCI != nil && defaults[found[i].Name]
	}
	return found, nil
}

// kindVLAN is the type of devices that have a tag (net/8021q/vlan_dev.c).
const kindVLAN = "vlan"

// tags reads the tags of vlans, where there are any.
func (r *Reader) tags(pid int, interfaces []Interface) error {
	var known map[string]int
	for i := range interfaces {
		link := interfaces[i].Link
		if link == nil || link.Kind != kindVLAN {
			continue
		}
		if known == nil {
			text, err := r.read(fmt.Sprintf("%d/net/vlan/config", pid))
			if err != nil {
				return fmt.Errorf("net/vlan/config: %w", err)
			}
			known = procfs.ParseVLANs(text)
		}
		link.VLANID = known[interfaces[i].Name]
	}
	return nil
}

// maxRoutes bounds how much text of routes is read, some 100,000.
const maxRoutes = 16 << 20

func (r *Reader) defaultRoutes(pid int) (map[string]bool, error) {
	interfaces := map[string]bool{}
	for name, read := range map[string]func(io.Reader, map[string]bool) error{"route": procfs.DefaultRoutes, "ipv6_route": procfs.DefaultIPv6Routes} {
		f, err := r.proc.Open(fmt.Sprintf("%d/net/%s", pid, name))
		if err != nil {
			continue // absent without the protocol
		}
		text := &io.LimitedReader{R: f, N: maxRoutes}
		err = read(text, interfaces)
		if err == nil && text.N == 0 {
			err = fmt.Errorf("longer than %d bytes", maxRoutes)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("net/%s: %w", name, err)
		}
	}
	return interfaces, nil
}

// maxInterfaces bounds what a pod can have one read.
const maxInterfaces = 4096

// link is an interface as a container's /sys/class/net shows it.
type link struct {
	name string
	// target is where its link leads: its device's place in sysfs.
	target string
	virtual
}

// virtual is what distinguishes a virtual interface from another; zero for others.
type virtual struct {
	index int
	// below is the index of the interface below it, zero where there is none.
	below int
	mac   string
	// alias, kind and up are as of a Link.
	alias, kind string
	up          bool
}

// links reads the container's /sys/class/net, which has the device below each
// interface, and uses it only where it is a sysfs and names exactly the
// interfaces that the kernel lists for the process.
func (in *inside) links() ([]link, error) {
	text, err := in.read("net/dev", maxText)
	if err != nil {
		return nil, err
	}
	names, err := procfs.ParseNetDev(text)
	if err != nil {
		return nil, err
	}
	targets, virtuals, err := in.classNet()
	if err != nil {
		return nil, err
	}
	links := make([]link, 0, len(names))
	for _, name := range names {
		target, ok := targets[name]
		if !ok {
			return nil, fmt.Errorf("interface %q is not in the container's sysfs: that is of another network namespace", name)
		}
		links = append(links, link{name: name, target: target, virtual: virtuals[name]})
	}
	if len(targets) != len(names) {
		return nil, fmt.Errorf("the container's sysfs has %d interfaces, its network namespace %d", len(targets), len(names))
	}
	return links, nil
}

// classNet reads the links of a container's /sys/class/net, and of its virtual
// interfaces what distinguishes them.
func (in *inside) classNet() (links map[string]string, virtuals map[string]virtual, err error) {
	if err := in.answers("/sys"); err != nil {
		return nil, nil, err
	}
	sys, err := openBelow(in.root, "sys", crossing)
	if err != nil {
		return nil, nil, err
	}
	defer sys.Close()
	if err := isOf(sys, in.options.SysfsType); err != nil {
		return nil, nil, err
	}
	class, err := openBelow(sys, "class/net", staying)
	if err != nil {
		return nil, nil, err
	}
	defer class.Close()
	names, err := class.Readdirnames(maxInterfaces)
	if err != nil {
		return nil, nil, fmt.Errorf("list interfaces: %w", err)
	}
	links, virtuals = map[string]string{}, map[string]virtual{}
	for _, name := range names {
		target, err := readLink(class, name)
		if errors.Is(err, unix.EINVAL) {
			continue // bonding_masters is a file
		}
		if err != nil {
			return nil, nil, fmt.Errorf("interface %q: %w", name, err)
		}
		links[name] = target
		if pciOf(target) == nil {
			virtuals[name] = virtualOf(class, name)
		}
	}
	forgetPairs(virtuals)
	return links, virtuals, nil
}

// forgetPairs lets the two ends of a pair in one namespace lie above nothing: each
// names the other (drivers/net/veth.c, veth_get_iflink), by a number that a NIC of
// the host may have as well.
func forgetPairs(virtuals map[string]virtual) {
	byIndex := map[int]virtual{}
	for _, v := range virtuals {
		byIndex[v.index] = v
	}
	for name, v := range virtuals {
		if other, ok := byIndex[v.below]; ok && other.below == v.index && v.below != v.index {
			v.below = 0
			virtuals[name] = v
		}
	}
}

// virtualOf reads an interface's iflink and address; what cannot be read is zero.
func virtualOf(class *os.File, name string) virtual {
	// The kernel's link leads up and down again, and stays in its file system.
	dir, err := openBelow(class, name, sameMount)
	if err != nil {
		return virtual{}
	}
	defer dir.Close()
	v := virtual{mac: readWord(dir, "address"), index: readNumber(dir, "ifindex")}
	lower := readNumber(dir, "iflink")
	if v.index == lower && !slices.Contains(onAnother, deviceType(readWord(dir, "uevent"))) {
		return v
	}
	v.below = lower
	if v.alias = readWord(dir, "ifalias"); v.alias == "" {
		return v // as the veth of every pod
	}
	v.kind = deviceType(readWord(dir, "uevent"))
	flags, err := strconv.ParseUint(readWord(dir, "flags"), 0, 32)
	v.up = err == nil && flags&unix.IFF_UP != 0
	return v
}

// onAnother are the kinds that always stand on another link. That may be in another network
// namespace, and have there the index that this one has here.
var onAnother = []string{model.ShareMacvlan, model.ShareIPvlan, model.ShareVLAN}

// deviceType is what a uevent says of the kind of device; empty where it says nothing.
func deviceType(uevent string) string {
	for line := range strings.Lines(uevent) {
		if kind, ok := strings.CutPrefix(line, "DEVTYPE="); ok {
			return strings.TrimSpace(kind)
		}
	}
	return ""
}

func readNumber(dir *os.File, name string) int {
	number, err := strconv.Atoi(readWord(dir, name))
	if err != nil {
		return 0
	}
	return number
}

func readWord(dir *os.File, name string) string {
	fd, err := open(dir, name, unix.O_RDONLY|unix.O_NONBLOCK, staying)
	if err != nil {
		return ""
	}
	defer func() { _ = unix.Close(fd) }()
	var buf [512]byte // an alias has 256 bytes at most (IFALIASZ)
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(buf[:n]))
}

// hostInterface finds the PCI function of the host's interface with an index.
// Every pod's veth asks, and a node has a link for each: the host's are read once
// a look.
func (r *Reader) hostInterface(index int) *model.PCIAddress {
	if r.hostNICs == nil {
		r.hostNICs = r.readHostNICs()
	}
	return r.hostNICs[index]
}

// hostName finds the name of the host's interface with an index; empty where it has none.
func (r *Reader) hostName(index int) string {
	if r.hostNames == nil {
		r.hostNames = map[int]string{}
		entries, _ := r.sys.ReadDir("class/net") // what cannot be read is not known
		for _, e := range entries {
			text, err := r.attribute("class/net/" + e.Name() + "/ifindex")
			if err != nil {
				continue
			}
			if index, err := strconv.Atoi(text); err == nil {
				r.hostNames[index] = e.Name()
			}
		}
	}
	return r.hostNames[index]
}

// readHostNICs reads the host's interfaces that belong to PCI functions, by index.
func (r *Reader) readHostNICs() map[int]*model.PCIAddress {
	found := map[int]*model.PCIAddress{}
	entries, err := r.sys.ReadDir("class/net")
	if err != nil {
		return found
	}
	for _, e := range entries {
		link, err := r.sys.ReadLink("class/net/" + e.Name())
		if err != nil {
			continue
		}
		address := pciOf(link)
		if address == nil {
			continue
		}
		text, err := r.attribute("class/net/" + e.Name() + "/ifindex")
		if err != nil {
			continue
		}
		if index, err := strconv.Atoi(text); err == nil {
			found[index] = address
		}
	}
	return found
}

// pciOf is the address of the last PCI function in a sysfs path; nil for a
// virtual device.
func pciOf(target string) *model.PCIAddress {
	for dir := path.Clean(target); dir != "." && dir != "/" && dir != ".."; dir = path.Dir(dir) {
		if a, err := model.ParsePCIAddress(path.Base(dir)); err == nil {
			return &a
		}
	}
	return nil
}
