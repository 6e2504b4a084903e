// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/binary"
)

// Offsets in configuration space (include/uapi/linux/pci_regs.h).
const (
	configBytes      = 256
	configVendor     = 0x00
	configDevice     = 0x02
	configCommand    = 0x04
	configStatus     = 0x06
	configClass      = 0x09
	configHeaderType = 0x0e
	configPrimary    = 0x18
	configCapPointer = 0x34
	configExpress    = 0x40 // of the PCI Express capability, our choice

	expressFlags      = 0x02
	expressLinkCap    = 0x0c
	expressLinkStatus = 0x12
)

// configSpace makes the configuration space that hwloc and lspci read: ids,
// class, bus numbers of a bridge and the PCIe link.
func configSpace(f *function, multifunction bool) []byte {
	c := make([]byte, configBytes)
	binary.LittleEndian.PutUint16(c[configVendor:], f.id.Vendor)
	binary.LittleEndian.PutUint16(c[configDevice:], f.id.Device)
	binary.LittleEndian.PutUint16(c[configCommand:], 0x0406)
	c[configClass], c[configClass+1], c[configClass+2] = byte(f.class), byte(f.class>>8), byte(f.class>>16)
	if f.kind != endpoint {
		c[configHeaderType] = 1
		c[configPrimary], c[configPrimary+1], c[configPrimary+2] = f.address.Bus, f.secondary, f.last
	}
	if multifunction {
		c[configHeaderType] |= 0x80
	}
	if f.link == nil {
		return c
	}
	binary.LittleEndian.PutUint16(c[configStatus:], 0x0010) // has capabilities
	c[configCapPointer] = configExpress
	express := c[configExpress:]
	express[0] = 0x10 // PCI_CAP_ID_EXP, and no other after it
	binary.LittleEndian.PutUint16(express[expressFlags:], 0x0002|uint16(f.kind)<<4)
	link := linkCode(f.link.SpeedMTs) | uint16(f.link.Width)<<4
	binary.LittleEndian.PutUint32(express[expressLinkCap:], uint32(link))
	binary.LittleEndian.PutUint16(express[expressLinkStatus:], link)
	return c
}

// linkCode is the register's code of a speed (PCI_EXP_LNKCAP_SLS_*).
func linkCode(speedMTs int) uint16 {
	for i, known := range []int{2500, 5000, 8000, 16000, 32000, 64000} {
		if speedMTs == known {
			return uint16(i + 1)
		}
	}
	return 0
}
