// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify/proc"
)

// network reads the pod's interfaces through the first container that shows
// them: containers of a pod share one network namespace.
func (r *Reader) network(containers []Container) Network {
	err := ErrGone
	for _, c := range containers {
		if c.Err != nil {
			continue
		}
		var interfaces []Interface
		if interfaces, err = r.interfaces(c.Processes[0].PID); err == nil {
			return Network{Interfaces: interfaces}
		}
		err = fmt.Errorf("interfaces as container %s sees them: %w", c.Name, err)
	}
	return Network{Err: err}
}

// interfaces reads the container's /sys/class/net, which tells the device below
// each interface, and believes it only where it is a sysfs and names exactly the
// interfaces that the kernel lists for the process.
func (r *Reader) interfaces(pid int) ([]Interface, error) {
	dir := strconv.Itoa(pid) + "/net/"
	text, err := r.readLong(dir + "dev")
	if err != nil {
		return nil, err
	}
	names, err := proc.ParseNetDev(text)
	if err != nil {
		return nil, err
	}
	links, virtual, err := r.classNet(pid)
	if err != nil {
		return nil, err
	}
	var found []Interface
	for _, name := range names {
		target, ok := links[name]
		if !ok {
			return nil, fmt.Errorf("interface %q is not in the container's sysfs: that is of another network namespace", name)
		}
		i := Interface{Name: name, PCI: pciOf(target)}
		if v := virtual[name]; i.PCI == nil {
			if i.MAC = v.mac; v.below != 0 {
				i.PCI = r.hostInterface(v.below)
				i.Above = i.PCI != nil
			}
		}
		found = append(found, i)
	}
	if len(links) != len(names) {
		return nil, fmt.Errorf("the container's sysfs has %d interfaces, its network namespace %d", len(links), len(names))
	}
	slices.SortFunc(found, func(a, b Interface) int { return cmp.Compare(a.Name, b.Name) })
	// Most pods have no NIC, and then nobody wants to know.
	if slices.ContainsFunc(found, func(i Interface) bool { return i.PCI != nil }) {
		defaults := r.defaultRoutes(dir)
		for i := range found {
			found[i].Default = found[i].PCI != nil && defaults[found[i].Name]
		}
	}
	return found, nil
}

func (r *Reader) defaultRoutes(dir string) map[string]bool {
	var texts [2][]byte
	for i, name := range []string{"route", "ipv6_route"} {
		if text, err := r.readLong(dir + name); err == nil { // absent without the protocol
			texts[i] = text
		}
	}
	return proc.DefaultRoutes(texts[0], texts[1])
}

// maxInterfaces bounds what a pod can have one read.
const maxInterfaces = 4096

// virtual is what a virtual interface says of itself.
type virtual struct {
	index int
	// below is the index of the interface below it, where that is not its own.
	below int
	mac   string
}

// classNet reads the links of a container's /sys/class/net, and of its virtual
// interfaces what tells them apart.
func (r *Reader) classNet(pid int) (links map[string]string, virtuals map[string]virtual, err error) {
	root, err := r.inside(pid)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	class, err := openBelow(root, "sys/class/net", unix.RESOLVE_IN_ROOT)
	if err != nil {
		return nil, nil, err
	}
	defer class.Close()
	if err := isOf(class, r.options.SysfsType); err != nil {
		return nil, nil, err
	}
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
		if other, ok := byIndex[v.below]; ok && other.below == v.index {
			v.below = 0
			virtuals[name] = v
		}
	}
}

// virtualOf reads an interface's iflink and address; what cannot be read is zero.
func virtualOf(class *os.File, name string) virtual {
	dir, err := openBelow(class, name, 0)
	if err != nil {
		return virtual{}
	}
	defer dir.Close()
	v := virtual{mac: readWord(dir, "address"), index: readNumber(dir, "ifindex")}
	if lower := readNumber(dir, "iflink"); v.index != lower {
		v.below = lower
	}
	return v
}

func readNumber(dir *os.File, name string) int {
	number, err := strconv.Atoi(readWord(dir, name))
	if err != nil {
		return 0
	}
	return number
}

func readWord(dir *os.File, name string) string {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = unix.Close(fd) }()
	var buf [128]byte
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
