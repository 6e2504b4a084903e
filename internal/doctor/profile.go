// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/model"
)

// Settings of devices in a profile.
const (
	settingDriver   = "driver"
	settingFirmware = "firmware"
	settingLink     = "link"
	settingMTU      = "mtu"
	settingSpeed    = "speed"
	settingNUMA     = "numa"
)

// Profile is what a host has and how it is set, without names, addresses and serial
// numbers: hosts of one kind have one profile.
func Profile(h Host) hosts.HostProfile {
	var p hosts.HostProfile
	if release, err := h.read("proc/sys/kernel/osrelease"); err == nil {
		p.Kernel = release
	}
	p.Settings = h.hostSettings()
	gpus := map[model.PCIAddress]bool{}
	for _, g := range h.gpus() {
		gpus[g.Address] = true
		p.Devices = append(p.Devices, h.deviceProfile(kindGPU, g, nil))
	}
	for i := range h.Machine.NICs {
		n := &h.Machine.NICs[i]
		if n.PCI == nil || gpus[*n.PCI] {
			continue
		}
		if f := h.Machine.Function(*n.PCI); f != nil {
			p.Devices = append(p.Devices, h.deviceProfile(kindNIC, *f, n))
		}
	}
	p.Devices = together(p.Devices)
	return p
}

// Settings of hosts in a profile that are not the whole text of a file.
const (
	settingMachine = "machine"
	settingCPU     = "cpu"
	settingCPUs    = "cpus"
	// settingCmdline begins those of the kernel's command line.
	settingCmdline = "cmdline:"
)

// settingFiles are the settings that are a file's text; there is no such file where the
// kernel was built without it or the module is not loaded.
var settingFiles = map[string]string{
	"numa_balancing": "proc/sys/kernel/numa_balancing",
	"netns_mode":     "sys/module/ib_core/parameters/netns_mode",
	"mlx5_core":      "sys/module/mlx5_core/version",
	"nvidia":         "sys/module/nvidia/version",
}

// pageSize matches the settings that are numbers of huge pages, by the kernel's names of
// sizes.
var pageSize = regexp.MustCompile(`^hugepages-[0-9]+kB$`)

// cmdlineWords are the parameters of the kernel that are settings.
var cmdlineWords = []string{"iommu", "intel_iommu", "amd_iommu", "pci", "hugepages", "hugepagesz", "isolcpus"}

// hostSettings are those by which hosts of one kind differ when somebody forgot one;
// what cannot be read is left out.
func (h Host) hostSettings() map[string]string {
	all := h.hardware()
	for name, file := range settingFiles {
		if text, err := h.read(file); err == nil && text != "" {
			all[name] = text
		}
	}
	if pages, _, err := h.hugePages(); err == nil {
		for size, on := range pages {
			all[size] = inNodes(on)
		}
	}
	if line, err := h.read("proc/cmdline"); err == nil {
		for word := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(word, "=")
			if slices.Contains(cmdlineWords, name) {
				all[settingCmdline+name] = value
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// hardware is what machine it is, as its firmware says, with which processors, and how
// many CPUs are online.
func (h Host) hardware() map[string]string {
	all := map[string]string{}
	var words []string
	for _, file := range []string{"sys_vendor", "product_name"} {
		if text, err := h.read("sys/class/dmi/id/" + file); err == nil && text != "" {
			words = append(words, text)
		}
	}
	if len(words) > 0 {
		all[settingMachine] = strings.Join(words, " ")
	}
	if name, _ := h.cpuinfo("model name"); name != "" {
		all[settingCPU] = name
	}
	online := 0
	for i := range h.Machine.CPUs {
		if h.Machine.CPUs[i].Online {
			online++
		}
	}
	if online > 0 {
		all[settingCPUs] = strconv.Itoa(online)
	}
	return all
}

// deviceProfile is a profile of one device.
func (h Host) deviceProfile(kind string, f model.PCIFunction, n *model.NIC) hosts.DeviceProfile {
	d := hosts.DeviceProfile{Kind: kind, ID: fmt.Sprintf("%04x:%04x", f.Vendor, f.Device), Count: 1, Settings: map[string]string{}}
	if f.DeviceName != nil {
		d.Model = *f.DeviceName
	}
	if f.Driver != nil {
		d.Settings[settingDriver] = *f.Driver
	}
	if l := f.Link; l != nil && l.MaxWidth > 0 {
		// What it runs at now differs from hour to hour where a device saves power.
		d.Settings[settingLink] = fmt.Sprintf("%s x%d", rate(l.MaxSpeedMTs), l.MaxWidth)
	}
	if f.NUMANode == nil && len(h.Machine.NUMANodes) > 1 {
		d.Settings[settingNUMA] = "unknown"
	}
	if n == nil {
		return d
	}
	if n.Interface != nil && n.Interface.MTU != nil {
		d.Settings[settingMTU] = strconv.Itoa(*n.Interface.MTU)
	}
	if n.Interface != nil && n.Interface.SpeedMbps != nil {
		d.Settings[settingSpeed] = speed(*n.Interface.SpeedMbps)
	}
	maps.Copy(d.Settings, h.qosSettingsOf(*n))
	if n.RDMA != nil && n.RDMA.Name != "" {
		if v, err := h.read(path.Join("sys/class/infiniband", n.RDMA.Name, "fw_ver")); err == nil {
			d.Settings[settingFirmware] = v
		}
	}
	return d
}

// together counts devices that are alike.
func together(devices []hosts.DeviceProfile) []hosts.DeviceProfile {
	var all []hosts.DeviceProfile
	for _, d := range devices {
		i := slices.IndexFunc(all, func(other hosts.DeviceProfile) bool { return alike(other, d) })
		if i < 0 {
			all = append(all, d)
			continue
		}
		all[i].Count += d.Count
		maps.Copy(all[i].Settings, d.Settings)
	}
	slices.SortFunc(all, func(a, b hosts.DeviceProfile) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID), cmp.Compare(fmt.Sprint(a.Settings), fmt.Sprint(b.Settings)))
	})
	return all
}

// alike says whether two devices are one model with the same settings. What is known of
// one alone counts for both: firmware cannot be read of a NIC that a pod has.
func alike(a, b hosts.DeviceProfile) bool {
	if a.Kind != b.Kind || a.ID != b.ID {
		return false
	}
	for name, value := range a.Settings {
		if other, known := b.Settings[name]; known && other != value {
			return false
		}
	}
	return true
}
