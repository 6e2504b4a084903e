// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

// field is one thing in which profiles are compared. device is empty for the host as a
// whole, else the kind and ID of all devices of a model: "nic 15b3:1021".
type field struct{ device, name string }

// Names of fields that are no settings.
const (
	fieldKernel = "kernel"
	fieldCount  = "count"
)

// meaning says what a field is: what it costs where it is another, which file says so,
// and how to change it. A fix has VALUE for the value: what another host reports is no
// text to put into a command.
type meaning struct {
	severity    hosts.Severity
	source, fix string
	// without is what a host has whose profile has no such field; "" where then nobody
	// knows: the file could not be read, or a pod has the device.
	without string
}

const notSet = "not set"

var hostFields = map[string]meaning{
	fieldKernel:    {hosts.Information, "/proc/sys/kernel/osrelease", "boot that kernel", ""},
	settingMachine: {hosts.Information, "/sys/class/dmi/id/product_name", "compare it with hosts of its own kind", ""},
	settingCPU:     {hosts.Information, "/proc/cpuinfo", "compare it with hosts of its own kind", ""},
	settingCPUs: {
		hosts.Performance, "/sys/devices/system/cpu/online",
		"look for CPUs that are offline: threads of cores off in the firmware, nosmt or maxcpus on the kernel's command line", "",
	},
	"numa_balancing": {hosts.Performance, "/proc/sys/kernel/numa_balancing", "sysctl -w kernel.numa_balancing=VALUE, and the same in /etc/sysctl.d", notSet},
	"netns_mode":     {hosts.Information, "/sys/module/ib_core/parameters/netns_mode", "rdma system set netns shared (Y) or exclusive (N)", notSet},
	"mlx5_core":      {hosts.Information, "/sys/module/mlx5_core/version", "install that version of the driver; the kernel's own has none", notSet},
	"nvidia":         {hosts.Information, "/sys/module/nvidia/version", "install that version of the driver", notSet},
}

// cmdlineField is the meaning of all parameters of the kernel.
var cmdlineField = meaning{hosts.Performance, "/proc/cmdline", "change the kernel's command line in the boot loader, and reboot", notSet}

// pagesField is the meaning of all sizes of huge pages: a profile of a host whose kernel
// has a size says so, if only that there are none.
var pagesField = meaning{hosts.Information, "/sys/devices/system/node/node*/hugepages/*/nr_hugepages", pagesFix, ""}

var deviceFields = withQoS(map[string]meaning{
	fieldCount: {
		hosts.Functional, "/sys/bus/pci/devices",
		"lspci -k: is the device there, with a driver? The kernel's log says why not; reseat the card", "",
	},
	settingDriver:   {hosts.Functional, "/sys/bus/pci/devices/ADDRESS/driver", "load the driver's module, and look into the kernel's log", "none"},
	settingFirmware: {hosts.Information, "/sys/class/infiniband/DEVICE/fw_ver", "install that firmware", ""},
	settingLink:     {hosts.Performance, "/sys/bus/pci/devices/ADDRESS/max_link_{speed,width}", "reseat the card; try another slot or riser", ""},
	settingMTU:      {hosts.Performance, "/sys/class/net/INTERFACE/mtu", "ip link set INTERFACE mtu VALUE, and the same where the network is configured", ""},
	settingSpeed:    {hosts.Performance, "/sys/class/net/INTERFACE/speed", "look at cable, optics and the speed that the switch port is set to", ""},
	settingNUMA:     {hosts.Performance, "/sys/bus/pci/devices/ADDRESS/numa_node", "update the firmware, which does not say where the slot is (ACPI _PXM)", "known"},
})

// withQoS adds the settings of quality of service, of which nobody knows where the
// driver does not say.
func withQoS(all map[string]meaning) map[string]meaning {
	for _, s := range qosSettings {
		all[s.name] = meaning{hosts.Performance, s.source("INTERFACE", "DEVICE"), s.fix, ""}
	}
	return all
}

// meaningOf is that of a field; known is false for one that this version has no word
// for: the report is of a newer agent.
func meaningOf(f field) (m meaning, known bool) {
	if f.device != "" {
		m, known = deviceFields[f.name]
	} else if word, ok := strings.CutPrefix(f.name, settingCmdline); ok {
		m, known = cmdlineField, slices.Contains(cmdlineWords, word)
	} else if pageSize.MatchString(f.name) {
		m, known = pagesField, true
	} else {
		m, known = hostFields[f.name]
	}
	if !known {
		m = meaning{hosts.Information, "the profile of the host", "make it so", ""}
	}
	return m, known
}

// compare orders fields: the host's before those of devices, the kernel and counts
// first.
func (f field) compare(other field) int {
	return cmp.Or(cmp.Compare(f.device, other.device), cmp.Compare(f.rank(), other.rank()), cmp.Compare(f.name, other.name))
}

func (f field) rank() int {
	if f.name == fieldKernel || f.name == fieldCount {
		return 0
	}
	return 1
}

// values are a profile by field.
type values struct {
	of map[field]string
	// devices are those that there are, with the name of the model.
	devices map[string]string
}

func valuesOf(p hosts.HostProfile) values {
	v := values{of: map[field]string{}, devices: map[string]string{}}
	if p.Kernel != "" {
		v.of[field{"", fieldKernel}] = p.Kernel
	}
	for name, value := range p.Settings {
		v.of[field{"", name}] = value
	}
	counts := map[string]int{}
	spread := map[field]map[string]int{}
	for _, d := range p.Devices {
		device := deviceOf(d)
		v.devices[device] = cmp.Or(v.devices[device], d.Model)
		counts[device] += d.Count
		for name, value := range d.Settings {
			f := field{device, name}
			if spread[f] == nil {
				spread[f] = map[string]int{}
			}
			spread[f][value] += d.Count
		}
	}
	for device, n := range counts {
		v.of[field{device, fieldCount}] = strconv.Itoa(n)
	}
	for f, devices := range spread {
		v.of[f] = inWords(devices)
	}
	return v
}

func deviceOf(d hosts.DeviceProfile) string { return d.Kind + " " + d.ID }

// inWords is the one value of all devices, or which value so many have: "9000 of 7,
// 1500 of 1".
func inWords(devices map[string]int) string {
	all := slices.SortedFunc(maps.Keys(devices), func(a, b string) int {
		return cmp.Or(cmp.Compare(devices[b], devices[a]), cmp.Compare(a, b))
	})
	if len(all) == 1 {
		return all[0]
	}
	words := make([]string, len(all))
	for i, value := range all {
		words[i] = fmt.Sprintf("%s of %d", value, devices[value])
	}
	return strings.Join(words, ", ")
}

// get is what a host has; known is false where nobody can tell.
func (v values) get(f field) (value string, known bool) {
	m, _ := meaningOf(f)
	_, there := v.devices[f.device]
	value, known = v.of[f]
	switch {
	case known && value == "" && m.without != "":
		return m.without, true
	case known:
		return value, true
	case f.device != "" && !there:
		return "0", f.name == fieldCount
	}
	return m.without, m.without != ""
}

// fieldsOf are those that any of the profiles has, in order.
func fieldsOf(all ...values) []field {
	names := map[field]bool{}
	for _, v := range all {
		for f := range v.of {
			names[f] = true
		}
	}
	return slices.SortedFunc(maps.Keys(names), field.compare)
}

// finding is what is to be said of a field of a host.
func (f field) finding(check, model string) hosts.Finding {
	m, _ := meaningOf(f)
	return hosts.Finding{Check: check, Severity: m.severity, Subject: strings.TrimSpace(f.device + " " + model), Source: m.source}
}
