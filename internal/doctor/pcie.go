// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/host/pciconfig"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
)

// pcieLinks wants the links of GPUs and NICs, and of each bridge above them, as wide and
// as fast as they can be. An idle GPU runs its link slower to save power, so that its
// speed tells nothing.
func pcieLinks(h Host, r *report) {
	seen := map[model.PCIAddress]bool{}
	idles := map[model.PCIAddress]bool{}
	for _, g := range h.gpus() {
		for _, a := range h.Machine.Path(g.Address) {
			idles[a] = true
		}
	}
	for _, f := range h.carriers() {
		for _, a := range h.Machine.Path(f.Address) {
			if on := h.Machine.Function(a); on != nil && on.Link != nil && !seen[a] {
				seen[a] = true
				h.pcieLink(on, idles[a], r)
			}
		}
	}
}

func (h Host) pcieLink(f *model.PCIFunction, idles bool, r *report) {
	l, source := f.Link, "/"+device(f.Address)+"/current_link_{speed,width}"
	found := fmt.Sprintf("%s x%d of %s x%d", rate(l.SpeedMTs), l.Width, rate(l.MaxSpeedMTs), l.MaxWidth)
	if l.MaxWidth == 0 || l.Width == 0 {
		return // a port without anything on it, or a machine that does not say
	}
	switch {
	case l.Width < l.MaxWidth, !idles && l.SpeedMTs < l.MaxSpeedMTs:
		r.wrong(h.subject(f.Address), source, found, fmt.Sprintf("%s x%d, unless the slot has less", rate(l.MaxSpeedMTs), l.MaxWidth),
			"reseat the card; try another slot or riser; look for a limit in the firmware's settings")
	default:
		r.ok(h.subject(f.Address), source, found)
	}
}

func rate(mts int) string { return fmt.Sprintf("%.4g GT/s", float64(mts)/1000) }

// maxReadRequest wants NVIDIA's NICs to read 4096 bytes at a time. It is lost at each
// reset.
func maxReadRequest(h Host, r *report) {
	h.eachDeviceControl(r, func(subject, source string, control pciconfig.DeviceControl) {
		size := control.MaxReadRequest()
		if size < pciconfig.MaxReadRequest {
			r.wrong(subject, source, fmt.Sprintf("%d bytes", size), "4096 bytes",
				"setpci -s ADDRESS CAP_EXP+8.w=5000:7000, at each boot; or a HostPolicy: maxReadRequest")
			return
		}
		r.ok(subject, source, fmt.Sprintf("%d bytes", size))
	})
}

// relaxedOrdering wants NICs' writes free to pass each other.
func relaxedOrdering(h Host, r *report) {
	h.eachDeviceControl(r, func(subject, source string, control pciconfig.DeviceControl) {
		if !control.RelaxedOrdering() {
			r.wrong(subject, source, "off", "on",
				"setpci -s ADDRESS CAP_EXP+8.w=0010:0010, at each boot; or a HostPolicy: relaxedOrdering; or in the firmware: PCI_WR_ORDERING")
			return
		}
		r.ok(subject, source, "on")
	})
}

// eachDeviceControl shows the Device Control register of NVIDIA's RDMA NICs.
func (h Host) eachDeviceControl(r *report, show func(subject, source string, control pciconfig.DeviceControl)) {
	for _, f := range h.physicalCarriers() {
		if f.Vendor != vendorMellanox {
			continue
		}
		subject, source := h.subject(f.Address), "/sys/"+pciconfig.File(f.Address)
		control, err := h.deviceControl(f.Address)
		if err != nil {
			r.unknown(subject, source, err)
			continue
		}
		show(subject, source, control)
	}
}

func (h Host) deviceControl(a model.PCIAddress) (pciconfig.DeviceControl, error) {
	space, err := h.space(a)
	if err != nil {
		return 0, err
	}
	control, _, err := space.DeviceControl()
	return control, err
}

// maxPayload wants the packets of a GPU or NIC as large as those of each bridge above it:
// a bridge drops what is larger than it takes, and what is smaller than it could be costs
// more headers. Bridges of a virtual machine are the hypervisor's make.
func maxPayload(h Host, r *report) {
	carriers := slices.DeleteFunc(h.physicalCarriers(), func(f model.PCIFunction) bool { return f.Parent == nil })
	if len(carriers) == 0 || !h.physical(r) {
		return
	}
	for _, f := range carriers {
		h.payloadsAbove(f.Address, r)
	}
}

func (h Host) payloadsAbove(a model.PCIAddress, r *report) {
	subject, source := h.subject(a), "/sys/"+pciconfig.File(a)
	own, err := h.deviceControl(a)
	if err != nil {
		r.unknown(subject, source, err)
		return
	}
	bridges := h.Machine.Path(a)
	bridges = bridges[:len(bridges)-1]
	for _, bridge := range slices.Backward(bridges) {
		above, err := h.deviceControl(bridge)
		if errors.Is(err, pciconfig.ErrNoPCIe) {
			break // the root's own, which is no bridge of PCI Express
		}
		if err != nil {
			r.unknown(subject, "/sys/"+pciconfig.File(bridge), err)
			return
		}
		found := fmt.Sprintf("%d bytes, %s above it %d bytes", own.MaxPayload(), bridge, above.MaxPayload())
		if own.MaxPayload() > above.MaxPayload() {
			found += ", which drops what is larger"
		}
		if own.MaxPayload() != above.MaxPayload() {
			r.wrong(subject, source, found, "one size up to the root", "kernel parameter pci=pcie_bus_safe; or the size of PCIe payloads in the firmware's settings")
			return
		}
	}
	r.ok(subject, source, fmt.Sprintf("%d bytes up to the root", own.MaxPayload()))
}

// ats wants GPUs and NICs of a physical machine not to ask the IOMMU for translations
// themselves: where it translates nothing, they only wait. Virtual machines need it.
func ats(h Host, r *report) {
	carriers := h.physicalCarriers()
	if len(carriers) == 0 || !h.physical(r) {
		return
	}
	for _, f := range carriers {
		subject, source := h.subject(f.Address), "/sys/"+pciconfig.File(f.Address)
		control, there, err := h.extendedControl(f.Address, pciconfig.ExtendedATS, pciconfig.ATSControl)
		switch {
		case err != nil:
			r.unknown(subject, source, err)
		case !there:
			r.ok(subject, source, "has no ATS")
		case control&pciconfig.ATSEnabled != 0:
			r.wrong(subject, source, "ATS on", "off", "kernel parameter iommu=pt, or pci=noats; or in the firmware of NVIDIA's NICs: ATS_ENABLED=0")
		default:
			r.ok(subject, source, "ATS off")
		}
	}
}

// Bits of ACS that send traffic between two devices below a switch up to the root
// (PCI_ACS_SV, PCI_ACS_RR, PCI_ACS_CR, PCI_ACS_UF).
const acsRedirects = 1<<0 | 1<<2 | 1<<3 | 1<<4

// acs wants bridges between a GPU and a NIC below one switch of a physical machine not
// to send their traffic up to the root. In a virtual machine, and where the two meet at
// the root only, other values are right, which the hypervisor or the kernel sets.
func acs(h Host, r *report) {
	bridges := h.bridgesBetween()
	if len(bridges) == 0 || !h.physical(r) {
		return
	}
	for _, a := range bridges {
		subject, source := h.subject(a), "/"+device(a)+"/config"
		control, there, err := h.extendedControl(a, pciconfig.ExtendedACS, pciconfig.ACSControl)
		if err != nil {
			r.unknown(subject, source, err)
			continue
		}
		if !there {
			r.ok(subject, source, "has no ACS")
			continue
		}
		found := fmt.Sprintf("ACS control %07b", control&0x7f)
		if control&acsRedirects != 0 {
			r.wrong(subject, source, found, "bits 0, 2, 3 and 4 clear (xx000x0)",
				"kernel parameter pci=config_acs=…; not on machines whose devices go to virtual machines")
			continue
		}
		r.ok(subject, source, found)
	}
}

// extendedControl is a register of an extended capability; there is false where the
// function has no such capability.
func (h Host) extendedControl(a model.PCIAddress, capability uint16, register int) (control uint16, there bool, err error) {
	space, err := h.space(a)
	if err != nil {
		return 0, false, err
	}
	at := space.Extended(capability)
	if at == 0 {
		return 0, false, nil
	}
	control, err = space.Word(at + register)
	return control, true, err
}

// bridgesBetween are the bridges on the way between a GPU and an RDMA NIC that meet
// below the root.
func (h Host) bridgesBetween() []model.PCIAddress {
	var all []model.PCIAddress
	for _, g := range h.gpus() {
		for _, n := range h.rdmaNICs() {
			up, other := h.Machine.Path(g.Address), h.Machine.Path(*n.PCI)
			common := 0
			for common < min(len(up), len(other)) && up[common] == other[common] {
				common++
			}
			if common == 0 {
				continue
			}
			for _, a := range slices.Concat(up[common:], other[common:]) {
				if f := h.Machine.Function(a); f != nil && f.ClassByte() == model.PCIClassBridge && !slices.Contains(all, a) {
					all = append(all, a)
				}
			}
		}
	}
	slices.SortFunc(all, model.PCIAddress.Compare)
	return all
}

// iommu wants no translation on physical machines: each access of a NIC to a GPU would
// go up to the IOMMU.
func iommu(h Host, r *report) {
	carriers := h.carriers()
	if len(carriers) == 0 || !h.physical(r) {
		return
	}
	for _, f := range carriers {
		file := path.Join(device(f.Address), "iommu_group/type")
		kind, err := h.read(file)
		subject := h.subject(f.Address)
		there, linkErr := h.exists(path.Join(device(f.Address), "iommu_group"))
		switch {
		case linkErr == nil && !there:
			r.ok(subject, "/"+device(f.Address)+"/iommu_group", "no IOMMU")
		case err != nil:
			r.unknown(subject, "/"+file, err)
		case kind == "identity":
			r.ok(subject, "/"+file, kind)
		default:
			r.wrong(subject, "/"+file, kind, "identity", "kernel parameter iommu=pt")
		}
	}
}

// pairs wants an RDMA NIC below the same switch as each GPU, or at least below the same
// root. The root of a Data Direct function of a NIC will do: by it the NIC reaches the GPU.
func pairs(h Host, r *report) {
	nics := h.rdmaNICs()
	if len(nics) == 0 {
		return
	}
	for _, g := range h.gpus() {
		best, whose := affinity.Unknown, ""
		for _, n := range nics {
			at := affinity.Place{PCI: &g.Address, NUMANode: g.NUMANode}
			if c := affinity.Between(h.Machine, at, affinity.OfNIC(n)); whose == "" || c < best {
				best, whose = c, subjectOf(n)
			}
		}
		subject, source, found := h.subject(g.Address), "/"+device(g.Address), fmt.Sprintf("%s: %s", best, whose)
		if best.SharesRoot() {
			r.ok(subject, source, found)
			continue
		}
		switch direct, file, err := h.pairedByDataDirect(g); {
		case direct != "":
			r.ok(subject, source, direct)
			continue
		case err != nil:
			r.unknown(subject, "/"+file, err)
			continue
		}
		r.wrong(subject, source, found, "a NIC below the GPU's PCIe root", "put the NIC into a slot of the GPU's switch; plumbline topo --matrix shows the distances")
	}
}

// numa wants a node for each GPU and NIC where there are several.
func numa(h Host, r *report) {
	if len(h.Machine.NUMANodes) < 2 {
		return
	}
	for _, f := range h.carriers() {
		source := "/" + device(f.Address) + "/numa_node"
		if f.NUMANode == nil {
			r.wrong(h.subject(f.Address), source, "-1", "a NUMA node", "update the firmware, which does not say where the slot is (ACPI _PXM)")
			continue
		}
		r.ok(h.subject(f.Address), source, fmt.Sprint(*f.NUMANode))
	}
}

// pcieErrors tells of errors that PCIe could not correct, and as a notice of those that it
// did: a link has some of them in its life.
func pcieErrors(h Host, r *report) {
	for _, f := range h.carriers() {
		for _, kind := range []string{"fatal", "nonfatal", "correctable"} {
			subject, file := h.subject(f.Address), path.Join(device(f.Address), "aer_dev_"+kind)
			text, err := h.read(file)
			counted := countedErrors(text)
			switch {
			case errors.Is(err, fs.ErrNotExist): // the device or the kernel has no AER
			case err != nil:
				r.unknown(subject, "/"+file, err)
			case counted == "":
				r.ok(subject, "/"+file, "none")
			case kind == "correctable":
				r.ok(subject, "/"+file, counted+" since the device was found, all corrected")
			default:
				r.wrong(subject, "/"+file, counted+" since the device was found", "none", "look at the kernel's log; reseat or replace the card")
			}
		}
	}
}

// countedErrors are those of a file aer_dev_* that are not zero: "CmpltTO 3, DLP 1".
func countedErrors(text string) string {
	var counted []string
	for line := range strings.Lines(text) {
		if name, n, ok := strings.Cut(strings.TrimSpace(line), " "); ok && n != "0" && !strings.HasPrefix(name, "TOTAL") {
			counted = append(counted, name+" "+n)
		}
	}
	return strings.Join(counted, ", ")
}

// physical says whether this is a physical machine, and reports where that is not known.
func (h Host) physical(r *report) bool {
	virtual, err := h.virtual()
	if err != nil {
		r.unknown("", "/proc/cpuinfo", err)
	}
	return err == nil && !virtual
}
