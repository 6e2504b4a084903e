// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"plumbline.dev/plumbline/internal/model"
)

// Numbers of capabilities, and where their registers lie in them
// (include/uapi/linux/pci_regs.h).
const (
	capabilityPCIe = 0x10 // PCI_CAP_ID_EXP
	extendedACS    = 0x0d // PCI_EXT_CAP_ID_ACS

	deviceControl = 8 // PCI_EXP_DEVCTL
	acsControl    = 6 // PCI_ACS_CTRL
)

const (
	statusRegister   = 0x06
	statusHasList    = 1 << 4 // PCI_STATUS_CAP_LIST
	firstCapability  = 0x34
	firstExtended    = 0x100
	configSpaceBytes = 4096
	headerBytes      = 64
)

// errShortConfig says that the kernel shows the header of a configuration space alone,
// as it does to whoever lacks CAP_SYS_ADMIN (drivers/pci/pci-sysfs.c,
// pci_read_config).
var errShortConfig = errors.New("only its first 64 bytes may be read; want root")

// configSpace is the configuration space of a function.
type configSpace []byte

func (h Host) configSpace(a model.PCIAddress) (configSpace, error) {
	f, err := h.Files.Open(path.Join(device(a), "config"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, configSpaceBytes))
	if err != nil {
		return nil, err
	}
	if len(data) <= headerBytes {
		return nil, errShortConfig
	}
	return data, nil
}

// word is the 16-bit register at an offset.
func (c configSpace) word(at int) (uint16, error) {
	if at < 0 || at+2 > len(c) {
		return 0, fmt.Errorf("the configuration space ends at byte %d, before register %#x", len(c), at)
	}
	return binary.LittleEndian.Uint16(c[at:]), nil
}

// capability finds a capability in the list of the first 256 bytes; 0 where there is
// none. The list is a device's word, and may lead in a circle.
func (c configSpace) capability(id byte) int {
	status, err := c.word(statusRegister)
	if err != nil || status&statusHasList == 0 {
		return 0
	}
	at := int(c[firstCapability]) &^ 3
	for range 48 { // as the kernel does (PCI_FIND_CAP_TTL)
		if at < headerBytes || at+2 > min(len(c), 256) {
			return 0
		}
		if c[at] == id {
			return at
		}
		at = int(c[at+1]) &^ 3
	}
	return 0
}

// extended finds an extended capability; 0 where there is none.
func (c configSpace) extended(id uint16) int {
	at := firstExtended
	for range (configSpaceBytes - firstExtended) / 8 {
		if at < firstExtended || at+4 > len(c) {
			return 0
		}
		header := binary.LittleEndian.Uint32(c[at:])
		if header == 0 {
			return 0
		}
		if uint16(header) == id {
			return at
		}
		at = int(header>>20) &^ 3
	}
	return 0
}

// register reads a register at an offset in a capability that find finds; there is false
// where the function has none.
func (h Host) register(a model.PCIAddress, find func(configSpace) int, offset int) (value uint16, there bool, err error) {
	config, err := h.configSpace(a)
	if err != nil {
		return 0, false, err
	}
	at := find(config)
	if at == 0 {
		return 0, false, nil
	}
	value, err = config.word(at + offset)
	return value, true, err
}
