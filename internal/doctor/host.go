// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/host/dcb"
	"plumbline.dev/plumbline/internal/host/pciconfig"
	"plumbline.dev/plumbline/internal/model"
)

// Host is what is checked.
type Host struct {
	// Machine is the host's hardware as the inventory sees it.
	Machine *model.Machine
	// Files is the root of the host's file system: "sys/…", "proc/…".
	Files fs.FS
	// Log opens the kernel's log, whose reading comes to an end; nil where nobody is to
	// look into it, as in an agent's container, to which the device is closed.
	Log func() (io.ReadCloser, error)
	// DCB asks the driver of an interface; nil where nobody is to be asked, as of the files
	// of a host that is not this one.
	DCB func(interfaceName string) (dcb.Settings, error)

	// spaces are the configuration spaces that checks have read so far, which takes the
	// kernel about a millisecond each; nil reads each time anew.
	spaces map[model.PCIAddress]registers
	// programs are the processes by name, of which there may be thousands; empty until a
	// check has asked, nil reads each time anew.
	programs map[string][]string
	// identities are what checks have read of vital product data so far, which is slow;
	// nil reads each time anew.
	identities map[model.PCIAddress]identity
}

// registers are a function's configuration space, or why it cannot be read.
type registers struct {
	space pciconfig.Space
	err   error
}

// space reads a function's configuration space.
func (h Host) space(a model.PCIAddress) (pciconfig.Space, error) {
	if known, ok := h.spaces[a]; ok {
		return known.space, known.err
	}
	space, err := pciconfig.Read(h.Files, "sys/"+pciconfig.File(a))
	if h.spaces != nil {
		h.spaces[a] = registers{space, err}
	}
	return space, err
}

// maxFile bounds what is read of one file; /proc/cpuinfo and a kernel's configuration
// are the longest.
const maxFile = 1 << 20

// read returns a file's text without the space around it.
func (h Host) read(name string) (string, error) {
	f, err := h.Files.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	return strings.TrimSpace(string(data)), err
}

// exists says whether there is a file; an error other than its absence is one.
func (h Host) exists(name string) (bool, error) {
	_, err := fs.Stat(h.Files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// number reads a decimal number.
func (h Host) number(name string) (int, error) {
	text, err := h.read(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// Vendors of GPUs and NICs (include/linux/pci_ids.h).
const (
	vendorNVIDIA   = 0x10de
	vendorAMD      = 0x1002
	vendorMellanox = 0x15b3
)

// gpus are the functions that are GPUs of the vendors that make them for computing.
func (h Host) gpus() []model.PCIFunction {
	return h.functions(func(f model.PCIFunction) bool {
		computes := f.ClassByte() == model.PCIClassDisplay || f.ClassByte() == model.PCIClassAccelerator
		return computes && (f.Vendor == vendorNVIDIA || f.Vendor == vendorAMD)
	})
}

func (h Host) functions(want func(model.PCIFunction) bool) []model.PCIFunction {
	return slices.DeleteFunc(slices.Clone(h.Machine.Functions), func(f model.PCIFunction) bool { return !want(f) })
}

// rdmaNICs are the NICs with an RDMA device that is a PCI function.
func (h Host) rdmaNICs() []model.NIC {
	return slices.DeleteFunc(slices.Clone(h.Machine.NICs), func(n model.NIC) bool {
		return n.RDMA == nil || n.PCI == nil || n.RDMA.Name == "" || n.RDMA.Software
	})
}

// carriers are the functions whose path matters: GPUs and RDMA NICs, each once.
func (h Host) carriers() []model.PCIFunction {
	wanted := map[model.PCIAddress]bool{}
	for _, g := range h.gpus() {
		wanted[g.Address] = true
	}
	for _, n := range h.rdmaNICs() {
		wanted[*n.PCI] = true
	}
	return h.functions(func(f model.PCIFunction) bool { return wanted[f.Address] })
}

// physicalCarriers are those that are no virtual functions, whose registers are their
// physical function's.
func (h Host) physicalCarriers() []model.PCIFunction {
	return slices.DeleteFunc(h.carriers(), func(f model.PCIFunction) bool { return f.PhysicalFunction != nil })
}

// subjectOf names a NIC by all that people call it.
func subjectOf(n model.NIC) string {
	var words []string
	if n.PCI != nil {
		words = append(words, n.PCI.String())
	}
	if n.Interface != nil {
		words = append(words, n.Interface.Name)
	}
	if n.RDMA != nil {
		words = append(words, n.RDMA.Name)
	}
	return strings.Join(words, " ")
}

// subject names a function, with the interface and the RDMA device that hang from it.
func (h Host) subject(a model.PCIAddress) string {
	for _, n := range h.Machine.NICs {
		if n.PCI != nil && *n.PCI == a {
			return subjectOf(n)
		}
	}
	if f := h.Machine.Function(a); f != nil && f.DeviceName != nil {
		return fmt.Sprintf("%s %s", a, *f.DeviceName)
	}
	return a.String()
}

// device is a function's folder in sysfs.
func device(a model.PCIAddress) string { return path.Join("sys/bus/pci/devices", a.String()) }

// cpuinfo is a field of the first processor in /proc/cpuinfo, "" where it has none of
// that name.
func (h Host) cpuinfo(field string) (string, error) {
	text, err := h.read("proc/cpuinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == field {
			return strings.TrimSpace(value), nil
		}
	}
	return "", nil
}

// virtual says whether this is a virtual machine, where the hypervisor decides on PCIe
// settings.
func (h Host) virtual() (bool, error) {
	flags, err := h.cpuinfo("flags")
	if err != nil {
		return false, err
	}
	if flags == "" {
		// Arm has no such line; firmware tells in other ways, which differ.
		return false, errors.New("proc/cpuinfo: no line of flags")
	}
	return slices.Contains(strings.Fields(flags), "hypervisor"), nil
}
