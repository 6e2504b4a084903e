// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"

	"plumbline.dev/plumbline/lab/vm/guest"
)

// setManagement brings up loopback and the way to the host.
func setManagement(m guest.Management) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	link, err := linkByMAC(m.MAC)
	if err != nil {
		return err
	}
	if err := setLink(link, m.Name, 0, m.Address); err != nil {
		return err
	}
	gateway := net.ParseIP(m.Gateway)
	if gateway == nil {
		return fmt.Errorf("route through %q: no IP address", m.Gateway)
	}
	if err := netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway}); err != nil {
		return fmt.Errorf("route through %s: %w", gateway, err)
	}
	return nil
}

func linkByMAC(mac string) (netlink.Link, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	for _, link := range links {
		if link.Attrs().HardwareAddr.String() == mac {
			return link, nil
		}
	}
	return nil, fmt.Errorf("find the link with address %s: none has it", mac)
}

// setNICs names the machine's NICs and brings them up. All get a passing name
// first: a name to be given may be that of another one still.
func setNICs(nics []guest.NIC) error {
	links := make([]netlink.Link, len(nics))
	for i, n := range nics {
		link, err := linkByPCI(n.PCI)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetName(link, fmt.Sprintf("passing%d", i)); err != nil {
			return fmt.Errorf("rename the NIC at %s: %w", n.PCI, err)
		}
		links[i] = link
	}
	for i, n := range nics {
		if err := setLink(links[i], n.Name, n.MTU, n.Address); err != nil {
			return fmt.Errorf("NIC at %s: %w", n.PCI, err)
		}
	}
	return nil
}

// probeLimit is how long a driver may take to bind to a NIC.
const probeLimit = 2 * time.Minute

// linkByPCI waits for the NIC's interface: its driver may still be at it.
func linkByPCI(address string) (netlink.Link, error) {
	var names []os.DirEntry
	for deadline := time.Now().Add(probeLimit); len(names) == 0; time.Sleep(poll) {
		var err error
		names, err = os.ReadDir(filepath.Join("/sys/bus/pci/devices", address, "net"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("find the NIC at %s: %w", address, err)
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("find the NIC at %s: its driver made no interface", address)
		}
	}
	link, err := netlink.LinkByName(names[0].Name())
	if err != nil {
		return nil, fmt.Errorf("find link %s: %w", names[0].Name(), err)
	}
	return link, nil
}

// setLink gives a link its name, MTU and address and sets it up. The first
// three need it down.
func setLink(link netlink.Link, name string, mtu int, address string) error {
	var errs []error
	try := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", what, name, err))
		}
	}
	try("set down", netlink.LinkSetDown(link))
	try("set name", netlink.LinkSetName(link, name))
	if mtu > 0 {
		try("set MTU", netlink.LinkSetMTU(link, mtu))
	}
	if address != "" {
		addr, err := netlink.ParseAddr(address)
		try("read address", err)
		if err == nil {
			try("add address", netlink.AddrReplace(link, addr))
		}
	}
	try("set up", netlink.LinkSetUp(link))
	return errors.Join(errs...)
}
