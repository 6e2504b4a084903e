// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
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
	for _, f := range h.carriers() {
		if f.Vendor != vendorMellanox || f.PhysicalFunction != nil {
			continue // a virtual function has its physical one's
		}
		subject, source := h.subject(f.Address), "/sys/"+pciconfig.File(f.Address)
		control, err := pciconfig.ReadDeviceControl(h.Files, "sys/"+pciconfig.File(f.Address))
		if err != nil {
			r.unknown(subject, source, err)
			continue
		}
		show(subject, source, control)
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
		control, there, err := h.acsControl(a)
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

// acsControl is the register of a bridge's ACS; there is false where it has none.
func (h Host) acsControl(a model.PCIAddress) (control uint16, there bool, err error) {
	space, err := pciconfig.Read(h.Files, "sys/"+pciconfig.File(a))
	if err != nil {
		return 0, false, err
	}
	at := space.Extended(pciconfig.ExtendedACS)
	if at == 0 {
		return 0, false, nil
	}
	control, err = space.Word(at + pciconfig.ACSControl)
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
// root, where the machine has any such pair.
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

// pcieErrors tells of errors that are no longer corrected.
func pcieErrors(h Host, r *report) {
	for _, f := range h.carriers() {
		for _, kind := range []string{"fatal", "nonfatal"} {
			file := path.Join(device(f.Address), "aer_dev_"+kind)
			text, err := h.read(file)
			if err != nil {
				continue // the device or the kernel has no AER
			}
			counted := ""
			for line := range strings.Lines(text) {
				if name, n, ok := strings.Cut(strings.TrimSpace(line), " "); ok && n != "0" && !strings.HasPrefix(name, "TOTAL") {
					counted += ", " + name + " " + n
				}
			}
			if counted != "" {
				r.wrong(h.subject(f.Address), "/"+file, strings.TrimPrefix(counted, ", ")+" since the device was found", "none",
					"look at the kernel's log; reseat or replace the card")
				continue
			}
			r.ok(h.subject(f.Address), "/"+file, "none")
		}
	}
}

// physical says whether this is a physical machine, and reports where that is not known.
func (h Host) physical(r *report) bool {
	virtual, err := h.virtual()
	if err != nil {
		r.unknown("", "/proc/cpuinfo", err)
	}
	return err == nil && !virtual
}
