// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"
)

// renderPCI adds the functions below their roots and their links in bus/pci.
func (r *renderer) renderPCI(functions []function) {
	slots := map[string]int{} // functions by domain:bus:device
	for i := range functions {
		slots[slot(&functions[i])]++
	}
	for i := range functions {
		f := &functions[i]
		address := f.address.String()
		r.file(f.dir+"/class", fmt.Sprintf("0x%06x", f.class))
		r.file(f.dir+"/vendor", fmt.Sprintf("0x%04x", f.id.Vendor))
		r.file(f.dir+"/device", fmt.Sprintf("0x%04x", f.id.Device))
		r.file(f.dir+"/subsystem_vendor", "0x0000")
		r.file(f.dir+"/subsystem_device", "0x0000")
		r.file(f.dir+"/revision", "0x00")
		r.number(f.dir+"/numa_node", ptr.Deref(f.numa, -1))
		r.both(f.dir+"/local_cpus", f.dir+"/local_cpulist", r.cpus(f.numa))
		r.raw(f.dir+"/config", string(configSpace(f, slots[slot(f)] > 1)))
		r.renderLink(f)
		r.raw(f.dir+"/uevent", pciEvent(f))
		r.link(f.dir+"/subsystem", "bus/pci")
		r.link(path.Join("bus/pci/devices", address), f.dir)
		if f.driver != "" {
			driver := path.Join("bus/pci/drivers", f.driver)
			r.link(f.dir+"/driver", driver)
			r.link(path.Join(driver, address), f.dir)
		}
	}
}

func slot(f *function) string {
	address := f.address.String()
	return address[:strings.LastIndexByte(address, '.')]
}

// renderLink adds the four link files; a function whose link is unknown has none, like
// one of conventional PCI.
func (r *renderer) renderLink(f *function) {
	if f.link == nil {
		return
	}
	speed := strconv.FormatFloat(float64(f.link.SpeedMTs)/1000, 'f', 1, 64) + " GT/s PCIe"
	for _, which := range []string{"current", "max"} {
		r.file(path.Join(f.dir, which+"_link_speed"), speed)
		if f.link.Width > 0 {
			r.number(path.Join(f.dir, which+"_link_width"), f.link.Width)
		}
	}
}

func pciEvent(f *function) string {
	var b strings.Builder
	if f.driver != "" {
		fmt.Fprintf(&b, "DRIVER=%s\n", f.driver)
	}
	fmt.Fprintf(&b, "PCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=0000:0000\nPCI_SLOT_NAME=%s\n",
		f.class, f.id.Vendor, f.id.Device, f.address)
	return b.String()
}
