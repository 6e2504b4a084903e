// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// rdmaModules wants the modules that user programs of RDMA need, and those of NVIDIA's
// NICs from one source: a driver of another build than the core it is loaded into loses
// functions, or does not load.
func rdmaModules(h Host, r *report) {
	nics := h.rdmaNICs()
	if len(nics) == 0 {
		return
	}
	wanted := []string{"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm"}
	for _, n := range nics {
		if f := h.Machine.Function(*n.PCI); f != nil && f.Vendor == vendorMellanox {
			wanted = append(wanted, "mlx5_core", "mlx5_ib")
			break
		}
	}
	var missing []string
	for _, module := range wanted {
		there, err := h.exists(path.Join("sys/module", module))
		if err != nil {
			r.unknown("", path.Join("/sys/module", module), err)
			return
		}
		if !there {
			missing = append(missing, module)
		}
	}
	if len(missing) > 0 {
		r.wrong("", "/sys/module", "not loaded: "+strings.Join(missing, ", "), "loaded: "+strings.Join(wanted, ", "),
			"modprobe "+strings.Join(missing, " && modprobe "))
		return
	}
	core, driver := h.outOfTree("ib_core"), h.outOfTree("mlx5_core")
	if len(wanted) > 4 && core != driver {
		r.wrong("", "/sys/module/{ib_core,mlx5_core}/taint", fmt.Sprintf("ib_core is %s, mlx5_core is %s", built(core), built(driver)),
			"both of one build", "install all of DOCA-OFED's kernel modules, or none")
		return
	}
	r.ok("", "/sys/module", strings.Join(wanted, ", "))
}

// outOfTree says whether a module was built outside the kernel's tree (flag O of
// Documentation/admin-guide/tainted-kernels.rst).
func (h Host) outOfTree(module string) bool {
	taint, err := h.read(path.Join("sys/module", module, "taint"))
	return err == nil && strings.Contains(taint, "O")
}

func built(outOfTree bool) string {
	if outOfTree {
		return "built out of tree"
	}
	return "the kernel's own"
}

// firstDMABuf is the first kernel whose RDMA takes DMA-BUF (ib_umem_dmabuf_get).
var firstDMABuf = version.MustParseGeneric("5.12")

// dmaBuf wants one of the two ways by which a NIC reaches memory of NVIDIA's GPUs:
// DMA-BUF, which takes the open kernel module, or the module nvidia_peermem bound to
// the RDMA core.
func dmaBuf(h Host, r *report) {
	nvidia := false
	for _, g := range h.gpus() {
		nvidia = nvidia || g.Vendor == vendorNVIDIA
	}
	if !nvidia || len(h.rdmaNICs()) == 0 {
		return
	}
	const driverVersion = "proc/driver/nvidia/version"
	text, err := h.read(driverVersion)
	if err != nil {
		r.unknown("", "/"+driverVersion, fmt.Errorf("NVIDIA's kernel driver says nothing: %w", err))
		return
	}
	var lacks []string
	if !strings.Contains(text, "Open Kernel Module") {
		lacks = append(lacks, "NVIDIA's driver is not the open kernel module")
	}
	release, err := h.read("proc/sys/kernel/osrelease")
	if err != nil {
		r.unknown("", "/proc/sys/kernel/osrelease", err)
		return
	}
	if v, err := version.ParseGeneric(release); err == nil && v.LessThan(firstDMABuf) {
		lacks = append(lacks, "Linux "+release+" is older than 5.12")
	}
	if config, err := h.read("boot/config-" + release); err == nil && !strings.Contains(config, "CONFIG_PCI_P2PDMA=y") {
		lacks = append(lacks, "the kernel is built without CONFIG_PCI_P2PDMA")
	}
	if len(lacks) == 0 {
		r.ok("", "/"+driverVersion, "DMA-BUF: open kernel module on Linux "+release)
		return
	}
	const holder = "sys/module/ib_core/holders/nvidia_peermem"
	bound, err := h.exists(holder)
	if err != nil {
		r.unknown("", "/"+holder, err)
		return
	}
	if bound {
		r.ok("", "/"+holder, "nvidia_peermem is bound to the RDMA core")
		return
	}
	r.wrong("", "/"+driverVersion, strings.Join(lacks, "; ")+"; nvidia_peermem is not bound to the RDMA core",
		"DMA-BUF, or nvidia_peermem", "install NVIDIA's driver with its open kernel modules, or modprobe nvidia_peermem")
}
