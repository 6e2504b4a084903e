// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pciconfig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"plumbline.dev/plumbline/internal/model"
)

// Numbers of capabilities, and where their registers lie in them
// (include/uapi/linux/pci_regs.h).
const (
	CapabilityPCIe = 0x10 // PCI_CAP_ID_EXP
	ExtendedACS    = 0x0d // PCI_EXT_CAP_ID_ACS
	ExtendedATS    = 0x0f // PCI_EXT_CAP_ID_ATS

	ACSControl = 6       // PCI_ACS_CTRL
	ATSControl = 6       // PCI_ATS_CTRL
	ATSEnabled = 1 << 15 // PCI_ATS_CTRL_ENABLE
)

const (
	statusRegister   = 0x06
	statusHasList    = 1 << 4 // PCI_STATUS_CAP_LIST
	firstCapability  = 0x34
	firstExtended    = 0x100
	configSpaceBytes = 4096
	headerBytes      = 64
)

// ErrShort says that the kernel shows the header of a configuration space alone, as it
// does to whoever lacks CAP_SYS_ADMIN (drivers/pci/pci-sysfs.c, pci_read_config).
var ErrShort = errors.New("only its first 64 bytes may be read; want root")

// File is the path of a function's configuration space below sysfs' root.
func File(a model.PCIAddress) string { return path.Join("bus/pci/devices", a.String(), "config") }

// Space is the configuration space of a function.
type Space []byte

// Read reads a configuration space from its file.
func Read(files fs.FS, file string) (Space, error) {
	f, err := files.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return read(f)
}

func read(r io.Reader) (Space, error) {
	data, err := io.ReadAll(io.LimitReader(r, configSpaceBytes))
	if err != nil {
		return nil, err
	}
	if len(data) <= headerBytes {
		return nil, ErrShort
	}
	return data, nil
}

// Word is the 16-bit register at an offset.
func (s Space) Word(at int) (uint16, error) {
	if at < 0 || at+2 > len(s) {
		return 0, fmt.Errorf("the configuration space ends at byte %d, before register %#x", len(s), at)
	}
	return binary.LittleEndian.Uint16(s[at:]), nil
}

// Capability finds a capability in the list of the first 256 bytes; 0 where there is
// none. The list is a device's word, and may lead in a circle.
func (s Space) Capability(id byte) int {
	status, err := s.Word(statusRegister)
	if err != nil || status&statusHasList == 0 {
		return 0
	}
	at := int(s[firstCapability]) &^ 3
	for range 48 { // as the kernel does (PCI_FIND_CAP_TTL)
		if at < headerBytes || at+2 > min(len(s), 256) {
			return 0
		}
		if s[at] == id {
			return at
		}
		at = int(s[at+1]) &^ 3
	}
	return 0
}

// Extended finds an extended capability; 0 where there is none.
func (s Space) Extended(id uint16) int {
	at := firstExtended
	for range (configSpaceBytes - firstExtended) / 8 {
		if at < firstExtended || at+4 > len(s) {
			return 0
		}
		header := binary.LittleEndian.Uint32(s[at:])
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
