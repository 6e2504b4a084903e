// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"plumbline.dev/plumbline/internal/model"
)

// class3D is the class of 3D controllers: GPUs without a display, as data centres have
// (PCI_CLASS_DISPLAY_3D).
const class3D = 0x0302

// computeGPUs are the GPUs that can be for nothing but computing: one with a display may
// well be left alone. Virtual functions wait for a virtual machine.
func (h Host) computeGPUs() []model.PCIFunction {
	return slices.DeleteFunc(h.gpus(), func(f model.PCIFunction) bool { return f.Class>>8 != class3D || f.PhysicalFunction != nil })
}

// gpuDriver wants a kernel driver on each GPU, whichever: one that goes to virtual
// machines has vfio-pci.
func gpuDriver(h Host, r *report) {
	for _, g := range h.computeGPUs() {
		subject, source := h.subject(g.Address), "/"+device(g.Address)+"/driver"
		if g.Driver != nil {
			r.ok(subject, source, *g.Driver)
			continue
		}
		module := "nvidia"
		if g.Vendor == vendorAMD {
			module = "amdgpu"
		}
		r.wrong(subject, source, "no driver", module, "modprobe "+module+"; where it is loaded, the kernel's log says why it did not take the GPU")
	}
}

// Flags of a BAR (include/linux/ioport.h).
const (
	barPrefetchable = 0x2000     // IORESOURCE_PREFETCH
	bar64           = 0x100000   // IORESOURCE_MEM_64
	barUnset        = 0x20000000 // IORESOURCE_UNSET
)

// bar is a base address register of a PCI function: a window into its memory.
type bar struct {
	index    int
	size     uint64
	assigned bool
}

func (b bar) String() string {
	size, unit := b.size>>20, "MiB"
	if b.size >= 1<<30 {
		size, unit = b.size>>30, "GiB"
	}
	return fmt.Sprintf("BAR %d of %d %s", b.index, size, unit)
}

// smallBAR is what GPUs map of their memory so that 32-bit systems can start.
const smallBAR = 256 << 20

// gpuBAR wants the memory of GPUs mapped, and where NICs are to reach it, in a window
// larger than the smallest, if the GPU has a larger one.
func gpuBAR(h Host, r *report) {
	const fix = "in the host's firmware: decoding above 4 GiB, and resizable BARs; or the kernel parameter pci=realloc"
	for _, g := range h.computeGPUs() {
		subject, file := h.subject(g.Address), path.Join(device(g.Address), "resource")
		b, err := h.memoryBAR(file)
		switch {
		case err != nil:
			r.unknown(subject, "/"+file, err)
			continue
		case !b.assigned:
			found := b.String() + " has no address"
			if b.size == 0 {
				found = "no BAR of memory has an address"
			}
			r.wrong(subject, "/"+file, found, "an address for the GPU's memory", fix)
			continue
		case b.size > smallBAR || len(h.rdmaNICs()) == 0:
			r.ok(subject, "/"+file, b.String())
			continue
		}
		file = path.Join(device(g.Address), fmt.Sprintf("resource%d_resize", b.index))
		most, err := h.largestBAR(file)
		switch {
		case err != nil:
			r.unknown(subject, "/"+file, fmt.Errorf("%s, which could be larger for all that is known: %w", b, err))
		case most > b.size:
			r.wrong(subject, "/"+file, b.String(), bar{index: b.index, size: most}.String(), fix)
		default:
			r.ok(subject, "/"+file, b.String()+", the largest it has")
		}
	}
}

// memoryBAR is the largest BAR of a function's memory, by the file resource: a line of
// start, end and flags each.
func (h Host) memoryBAR(file string) (largest bar, err error) {
	text, err := h.read(file)
	if err != nil {
		return bar{}, err
	}
	index := -1
	for line := range strings.Lines(text) {
		index++
		if index > 5 {
			break // the ROM, and windows of bridges
		}
		var start, end, flags uint64
		if _, err := fmt.Sscanf(line, "0x%x 0x%x 0x%x", &start, &end, &flags); err != nil || end < start {
			return bar{}, fmt.Errorf("BAR %d is %q: want start, end and flags", index, strings.TrimSpace(line))
		}
		if flags&barPrefetchable != 0 && flags&bar64 != 0 && end-start >= largest.size {
			largest = bar{index: index, size: end - start + 1, assigned: flags&barUnset == 0 && start != 0}
		}
	}
	return largest, nil
}

// firstResizable is the first kernel that says how large a BAR can be
// (Documentation/ABI/testing/sysfs-bus-pci, resourceN_resize).
var firstResizable = version.MustParseGeneric("6.1")

// largestBAR is the largest size that a BAR can have, 0 where it has one size only.
func (h Host) largestBAR(file string) (uint64, error) {
	text, err := h.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, h.tellsSizes()
	}
	if err != nil {
		return 0, err
	}
	sizes, err := strconv.ParseUint(text, 16, 64) // bit 0 is 1 MiB
	if err != nil || sizes == 0 || bits.Len64(sizes) > 43 {
		return 0, fmt.Errorf("sizes %q: want a bitmap", text)
	}
	return 1 << (bits.Len64(sizes) - 1 + 20), nil
}

// tellsSizes is nil where the kernel would say of a BAR that it can be resized.
func (h Host) tellsSizes() error {
	release, err := h.read("proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	v, err := version.ParseGeneric(release)
	if err != nil {
		return err
	}
	if v.LessThan(firstResizable) {
		return fmt.Errorf("kernel %s does not say; want 6.1", release)
	}
	return nil
}
