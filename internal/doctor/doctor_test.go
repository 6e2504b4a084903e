// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/host/pciconfig"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/printable"
)

func address(t testing.TB, s string) model.PCIAddress {
	t.Helper()
	a, err := model.ParsePCIAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const (
	gpu, nicA, nicB        = "0000:05:00.0", "0000:06:00.0", "0000:07:00.0"
	portOfGPU, portOfNICA  = "0000:04:00.0", "0000:04:01.0"
	portOfNICB, switchPort = "0000:04:02.0", "0000:03:00.0"
	direct                 = "0000:08:00.0"
)

// readyMachine has a GPU and two NICs below one switch, the first with a Data Direct
// function there, and two NUMA nodes.
func readyMachine(t testing.TB) model.Machine {
	t.Helper()
	node := 0
	function := func(at, parent string, class uint32, vendor uint16) model.PCIFunction {
		f := model.PCIFunction{
			Address: address(t, at), Root: "pci0000:00", Class: class, Vendor: vendor, NUMANode: &node,
			Link: &model.PCILink{SpeedMTs: 32000, MaxSpeedMTs: 32000, Width: 16, MaxWidth: 16},
		}
		if parent != "" {
			up := address(t, parent)
			f.Parent = &up
		}
		return f
	}
	nic := func(at, ifname, rdma, own string) model.NIC {
		a, mtu, layer := address(t, at), 9000, "Ethernet"
		return model.NIC{
			PCI: &a, NUMANode: &node,
			Interface: &model.Interface{Name: ifname, MTU: &mtu, Addresses: []netip.Prefix{netip.MustParsePrefix(own)}},
			RDMA:      &model.RDMADevice{Name: rdma, LinkLayer: &layer, CharDevices: []string{"/dev/infiniband/umad0", "/dev/infiniband/uverbs" + rdma[len(rdma)-1:]}},
		}
	}
	driven := function(gpu, portOfGPU, 0x030200, vendorNVIDIA)
	driven.Driver = new("nvidia")
	dma := function(direct, switchPort, 0x080100, vendorMellanox)
	dma.Device = 0x2100
	return model.Machine{
		Name:      "ready",
		NUMANodes: []model.NUMANode{{ID: 0}, {ID: 1}},
		Roots:     []model.PCIRoot{{Name: "pci0000:00", Path: "devices/pci0000:00", Published: true, NUMANode: &node}},
		Functions: []model.PCIFunction{
			function(switchPort, "", 0x060400, 0x1000),
			function(portOfGPU, switchPort, 0x060400, 0x1000), function(portOfNICA, switchPort, 0x060400, 0x1000), function(portOfNICB, switchPort, 0x060400, 0x1000),
			driven, function(nicA, portOfNICA, 0x020000, vendorMellanox), function(nicB, portOfNICB, 0x020000, vendorMellanox),
			dma,
		},
		NICs: []model.NIC{nic(nicA, "eth1", "mlx5_0", "10.0.0.1/24"), nic(nicB, "eth2", "mlx5_1", "10.0.0.2/24")},
	}
}

// config is a configuration space with Device Control, and ACS control where it is not
// negative.
func config(control uint16, acs int) string {
	c := make([]byte, 4096)
	c[0x06] = 1 << 4 // the status says that there is a list of capabilities
	c[0x34] = 0x40
	c[0x40], c[0x41] = 0x05, 0x60 // MSI, then PCI Express
	c[0x60] = pciconfig.CapabilityPCIe
	binary.LittleEndian.PutUint16(c[0x60+8:], control)
	binary.LittleEndian.PutUint32(c[0x100:], 0x150<<20|1<<16|0x01) // AER
	if acs >= 0 {
		binary.LittleEndian.PutUint32(c[0x150:], 1<<16|pciconfig.ExtendedACS)
		binary.LittleEndian.PutUint16(c[0x150+pciconfig.ACSControl:], uint16(acs))
	}
	return string(c)
}

// withATS is a configuration space with ATS instead of ACS.
func withATS(space string, control uint16) string {
	c := []byte(space)
	binary.LittleEndian.PutUint32(c[0x100:], 0x160<<20|1<<16|0x01)
	binary.LittleEndian.PutUint32(c[0x160:], 1<<16|pciconfig.ExtendedATS)
	binary.LittleEndian.PutUint16(c[0x160+pciconfig.ATSControl:], control)
	return string(c)
}

// Values of Device Control: what is read at a time, how large packets are where they are
// larger than the least, and whether writes may pass each other.
const (
	payload256        = 1 << 5
	read512, read4096 = 2 << 12, 5 << 12
	relaxed           = 1 << 4
	goodControl       = read4096 | relaxed
)

// mapped is the GID of 10.0.0.LAST.
func mapped(last int) string { return fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a00:%04x", last) }

// resources is the file of a function's BARs with the second one so large.
func resources(size, flags uint64) string {
	const start = 0x220000000000
	return fmt.Sprintf("0x%016x 0x%016x 0x%016x\n", 0xfa000000, 0xfaffffff, 0x40200) +
		fmt.Sprintf("0x%016x 0x%016x 0x%016x\n", start, start+size-1, flags) + strings.Repeat("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", 11)
}

// vpd is vital product data with the keyword by which a Data Direct function finds its NIC.
func vpd(value string) string {
	keyword := pciconfig.DataDirectKeyword + string([]byte{byte(len(value))}) + value
	return "\x82\x04\x00CX-8" + "\x90" + string([]byte{byte(len(keyword)), 0}) + keyword + "\x78"
}

// memoryFlags are those of a BAR of memory: 64 bits wide, prefetchable.
const memoryFlags = 0x14220c

// readyFiles are those of a host on which nothing is wrong.
func readyFiles() map[string]string {
	files := map[string]string{
		"proc/cpuinfo":                             "processor\t: 0\nmodel name\t: Xeon Platinum 8481C\nflags\t\t: fpu vme\n",
		"sys/class/dmi/id/sys_vendor":              "NVIDIA\n",
		"sys/class/dmi/id/product_name":            "DGXH100\n",
		"proc/sys/kernel/osrelease":                "6.8.0-1007\n",
		"proc/sys/kernel/numa_balancing":           "0\n",
		"proc/driver/nvidia/version":               "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15\n",
		"boot/config-6.8.0-1007":                   "CONFIG_PCI_P2PDMA=y\n",
		"proc/812/comm":                            "containerd\n",
		"proc/812/limits":                          "Limit                     Soft Limit           Hard Limit           Units\nMax locked memory         unlimited            unlimited            bytes\n",
		"proc/812/cmdline":                         "/usr/bin/containerd\x00",
		"etc/containerd/config.toml":               "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\n",
		"etc/cdi/nvidia.yaml":                      "",
		"run/cdi/plumbline.json":                   "",
		"proc/900/comm":                            "kubelet\n",
		"proc/900/cmdline":                         "/usr/bin/kubelet\x00--config=/var/lib/kubelet/config.yaml\x00--v=2\x00",
		"var/lib/kubelet/config.yaml":              "kind: KubeletConfiguration\nfeatureGates: {DynamicResourceAllocation: true}\n",
		"run/nri/nri.sock":                         "",
		"sys/fs/cgroup/kubepods.slice/rdma.max":    "mlx5_0 hca_handle=max hca_object=max\nmlx5_1 hca_handle=max hca_object=max\n",
		"dev/infiniband/rdma_cm":                   "",
		"sys/class/infiniband_verbs/abi_version":   "6\n",
		"dev/kmsg":                                 "6,1,0,-;Linux version 6.8.0-1007\n6,2,1000000,-;mlx5_core 0000:06:00.0: firmware version: 28.39.1002\n SUBSYSTEM=pci\n",
		"sys/module/ib_core/parameters/netns_mode": "Y\n",
	}
	for _, module := range []string{"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "mlx5_core", "mlx5_ib"} {
		files["sys/module/"+module+"/taint"] = "\n"
	}
	for i, ifname := range []string{"eth1", "eth2"} {
		n := string(rune('0' + i))
		files["dev/infiniband/uverbs"+n] = ""
		files["sys/class/infiniband/mlx5_"+n+"/ports/1/state"] = "4: ACTIVE\n"
		files["sys/class/infiniband/mlx5_"+n+"/ports/1/phys_state"] = "5: LinkUp\n"
		files["sys/class/infiniband/mlx5_"+n+"/board_id"] = "MT_0000000838\n"
		files["sys/class/infiniband/mlx5_"+n+"/fw_ver"] = "28.39.1002\n"
		files["sys/class/net/"+ifname+"/operstate"] = "up\n"
		files["sys/class/infiniband/mlx5_"+n+"/node_type"] = "1: CA\n"
		files["sys/class/net/"+ifname+"/qos/trust"] = "dscp\n"
		for priority := range 8 {
			for _, point := range []string{"np", "rp"} {
				on := "0\n"
				if priority == 3 {
					on = "1\n"
				}
				files[fmt.Sprintf("sys/class/net/%s/ecn/roce_%s/enable/%d", ifname, point, priority)] = on
			}
		}
		files["sys/class/infiniband/mlx5_"+n+"/tc/1/traffic_class"] = "Global tclass=106\n"
		files["sys/kernel/config/rdma_cm/mlx5_"+n+"/ports/1/default_roce_tos"] = "106\n"
		port := "sys/class/infiniband/mlx5_" + n + "/ports/1/"
		for index, g := range []struct{ gid, kind string }{
			{"fe80:0000:0000:0000:0000:00ff:fe00:0001", "RoCE v2"}, {mapped(i + 1), "IB/RoCE v1"}, {mapped(i + 1), "RoCE v2"},
		} {
			files[fmt.Sprintf("%sgids/%d", port, index)] = g.gid + "\n"
			files[fmt.Sprintf("%sgid_attrs/types/%d", port, index)] = g.kind + "\n"
			files[fmt.Sprintf("%sgid_attrs/ndevs/%d", port, index)] = ifname + "\n"
		}
		files[port+"gids/3"] = "0000:0000:0000:0000:0000:0000:0000:0000\n"
		for _, counter := range []string{"counters/symbol_error", "counters/link_downed", "hw_counters/out_of_sequence"} {
			files[port+counter] = "0\n"
		}
	}
	for _, node := range []int{0, 1} {
		files[pagesOf(node)+"/hugepages-2048kB/nr_hugepages"] = "512\n"
		files[pagesOf(node)+"/hugepages-1048576kB/nr_hugepages"] = "0\n"
	}
	for _, conf := range []string{"eth1", "eth2", "all"} {
		for setting, value := range map[string]string{"arp_ignore": "1", "arp_announce": "2", "rp_filter": "0"} {
			files["proc/sys/net/ipv4/conf/"+conf+"/"+setting] = value + "\n"
		}
	}
	for _, a := range []string{nicA, nicB} {
		files["sys/bus/pci/devices/"+a+"/driver"] = linked + "../../../../bus/pci/drivers/mlx5_core"
	}
	for _, a := range []string{gpu, nicA, nicB} {
		files["sys/bus/pci/devices/"+a+"/iommu_group/type"] = "identity\n"
		files["sys/bus/pci/devices/"+a+"/aer_dev_fatal"] = "Undefined 0\nDLP 0\nTOTAL_ERR_FATAL 0\n"
	}
	files["sys/bus/pci/devices/"+nicA+"/vpd"], files["sys/bus/pci/devices/"+direct+"/vpd"] = vpd("a"), vpd("a")
	files["sys/bus/pci/devices/"+nicB+"/vpd"] = vpd("b")
	files["sys/bus/pci/devices/"+gpu+"/resource"] = resources(128<<30, memoryFlags)
	for _, a := range []string{nicA, nicB} {
		files["sys/bus/pci/devices/"+a+"/config"] = config(goodControl, -1)
	}
	for _, a := range []string{portOfGPU, portOfNICA, portOfNICB} {
		files["sys/bus/pci/devices/"+a+"/config"] = config(0, 0)
	}
	for _, a := range []string{gpu, switchPort} {
		files["sys/bus/pci/devices/"+a+"/config"] = config(0, -1)
	}
	return files
}

// unreadable stands for a file that root alone may read.
const unreadable = "\x00unreadable"

type someUnreadable struct{ fstest.MapFS }

func (f someUnreadable) Open(name string) (fs.File, error) {
	if file, ok := f.MapFS[name]; ok {
		switch string(file.Data) {
		case unreadable, hidden:
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
		case failing:
			return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EIO}
		}
	}
	return f.MapFS.Open(name)
}

// hidden stands for a file in a folder that is closed to all but root.
const hidden = "\x00hidden"

// linked, before a target, stands for a symbolic link.
const linked = "\x00linked "

// failing stands for a file of which the device, or its driver, gives an error.
const failing = "\x00failing"

func (f someUnreadable) Stat(name string) (fs.FileInfo, error) {
	if file, ok := f.MapFS[name]; ok && string(file.Data) == hidden {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrPermission}
	}
	return f.MapFS.Stat(name)
}

func (f someUnreadable) ReadDir(name string) ([]fs.DirEntry, error) {
	if file, ok := f.MapFS[name]; ok && string(file.Data) == unreadable {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return f.MapFS.ReadDir(name)
}

// absent takes a file away.
const absent = "\x00absent"

func hostWith(t testing.TB, machine func(*model.Machine), edits map[string]string) Host {
	t.Helper()
	parts := readyMachine(t)
	if machine != nil {
		machine(&parts)
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	files := readyFiles()
	maps.Copy(files, edits)
	tree := fstest.MapFS{}
	for name, text := range files {
		if target, is := strings.CutPrefix(text, linked); is {
			tree[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
		} else if text != absent {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	of := someUnreadable{tree}
	return Host{Machine: m, Files: of, Log: func() (io.ReadCloser, error) { return of.Open("dev/kmsg") }}
}

func TestReadyHost(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Run(hostWith(t, nil, nil)) {
		seen[f.Check] = true
		if f.Verdict != hosts.OK {
			t.Errorf("%+v", f)
		}
	}
	for _, c := range Checks() {
		if !seen[c.Name] {
			t.Errorf("%s says nothing of a host with GPU and NICs", c.Name)
		}
	}
}

// kernelSays is a log of the kernel with a message each minute.
func kernelSays(messages ...string) string {
	var log strings.Builder
	for i, m := range messages {
		fmt.Fprintf(&log, "4,%d,%d,-;%s\n SUBSYSTEM=pci\n", i, (i+1)*60_000_000, m)
	}
	return log.String()
}

// portDown are the files of an RDMA device's port, and of its interface, that are down.
func portDown(device, ifname string) map[string]string {
	port := "sys/class/infiniband/mlx5_" + device + "/ports/1/"
	return map[string]string{"sys/class/net/" + ifname + "/operstate": "down\n", port + "state": "1: DOWN\n", port + "phys_state": "3: Disabled\n"}
}

// nicsElsewhere puts the NICs below another root than the GPU, and leaves the Data Direct
// function there.
func nicsElsewhere(m *model.Machine) {
	m.Roots = append(m.Roots, model.PCIRoot{Name: "pci0000:80", Path: "devices/pci0000:80", Published: true})
	for i := range m.Functions {
		if f := &m.Functions[i]; f.Vendor == vendorMellanox && !pciconfig.IsDataDirect(f) {
			f.Root, f.Parent = "pci0000:80", nil
		}
	}
}

// brokenHost is a ready host with something else about it.
type brokenHost struct {
	machine func(*model.Machine)
	edits   map[string]string
	// want are "check verdict subject: found" of what is not OK.
	want []string
}

// brokenHosts are ready hosts broken in one way at a time, by what is so.
func brokenHosts(t *testing.T) map[string]brokenHost {
	const sysfs = "sys/bus/pci/devices/"
	return map[string]brokenHost{
		"modules that nobody may see": {
			nil, map[string]string{"sys/module/rdma_cm": hidden, "sys/module/rdma_cm/taint": absent}, []string{"rdma-modules unknown : may not be read"},
		},
		"a module is missing": {nil, map[string]string{"sys/module/rdma_ucm/taint": absent}, []string{"rdma-modules wrong : not loaded: rdma_ucm"}},
		"modules of two builds": {
			nil, map[string]string{"sys/module/mlx5_core/taint": "OE\n"},
			[]string{"rdma-modules wrong : ib_core is the kernel's own, mlx5_core is built out of tree"},
		},
		"modules of another build": {nil, map[string]string{"sys/module/mlx5_core/taint": "OE\n", "sys/module/ib_core/taint": "OE\n"}, nil},
		"closed driver": {
			nil, map[string]string{"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550\n"},
			[]string{"dma-buf wrong : NVIDIA's driver is not the open kernel module; nvidia_peermem is not bound to the RDMA core"},
		},
		"closed driver with peer memory": {
			nil, map[string]string{
				"proc/driver/nvidia/version":                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550\n",
				"sys/module/ib_core/holders/nvidia_peermem": "",
			}, nil,
		},
		"old kernel without peer-to-peer": {
			nil, map[string]string{"proc/sys/kernel/osrelease": "5.4.0-42\n", "boot/config-5.4.0-42": "# CONFIG_PCI_P2PDMA is not set\n"},
			[]string{"dma-buf wrong : Linux 5.4.0-42 is older than 5.12; the kernel is built without CONFIG_PCI_P2PDMA; nvidia_peermem is not bound to the RDMA core"},
		},
		"no driver of NVIDIA's": {
			nil, map[string]string{"proc/driver/nvidia/version": absent},
			[]string{"dma-buf unknown : is not there"},
		},
		"a GPU without a driver": {
			func(m *model.Machine) { m.Functions[4].Driver = nil }, nil,
			[]string{"gpu-driver wrong 0000:05:00.0: no driver"},
		},
		"an AMD GPU without a driver": {
			func(m *model.Machine) { m.Functions[4].Driver, m.Functions[4].Vendor = nil, vendorAMD }, nil,
			[]string{"gpu-driver wrong 0000:05:00.0: no driver"},
		},
		"a GPU with a display, which may be left alone": {
			func(m *model.Machine) { m.Functions[4].Driver, m.Functions[4].Class = nil, 0x030000 },
			map[string]string{sysfs + gpu + "/resource": absent}, nil,
		},
		"a virtual function of a GPU": {
			func(m *model.Machine) {
				up := address(t, portOfGPU)
				m.Functions[4].Driver, m.Functions[4].PhysicalFunction = nil, &up
			}, nil, nil,
		},
		"a window that the firmware kept small": {
			nil, map[string]string{sysfs + gpu + "/resource": resources(256<<20, memoryFlags), sysfs + gpu + "/resource1_resize": "00000000000081c0\n"},
			[]string{"gpu-bar wrong 0000:05:00.0: BAR 1 of 256 MiB"},
		},
		"a window as large as it gets": {
			nil, map[string]string{sysfs + gpu + "/resource": resources(256<<20, memoryFlags), sysfs + gpu + "/resource1_resize": "00000000000001c0\n"}, nil,
		},
		"a window of one size": {nil, map[string]string{sysfs + gpu + "/resource": resources(256<<20, memoryFlags)}, nil},
		"a window of which an old kernel does not tell": {
			nil, map[string]string{
				sysfs + gpu + "/resource": resources(256<<20, memoryFlags), "proc/sys/kernel/osrelease": "5.15.0-1\n", "boot/config-5.15.0-1": "CONFIG_PCI_P2PDMA=y\n",
			},
			[]string{"gpu-bar unknown 0000:05:00.0: BAR 1 of 256 MiB, which could be larger for all that is known: kernel 5.15.0-1 does not say; want 6.1"},
		},
		"a window that root alone may read of": {
			nil, map[string]string{sysfs + gpu + "/resource": resources(256<<20, memoryFlags), sysfs + gpu + "/resource1_resize": unreadable},
			[]string{"gpu-bar unknown 0000:05:00.0: may not be read"},
		},
		"a window of sizes that nobody understands": {
			nil, map[string]string{sysfs + gpu + "/resource": resources(256<<20, memoryFlags), sysfs + gpu + "/resource1_resize": "ffffffffffffffff\n"},
			[]string{`gpu-bar unknown 0000:05:00.0: BAR 1 of 256 MiB, which could be larger for all that is known: sizes "ffffffffffffffff": want a bitmap`},
		},
		"a window without an address": {
			nil, map[string]string{sysfs + gpu + "/resource": resources(128<<30, memoryFlags|barUnset)},
			[]string{"gpu-bar wrong 0000:05:00.0: BAR 1 of 128 GiB has no address"},
		},
		"no window": {
			nil, map[string]string{sysfs + gpu + "/resource": resources(128<<30, 0x40200)},
			[]string{"gpu-bar wrong 0000:05:00.0: no BAR of memory has an address"},
		},
		"windows that nobody tells": {nil, map[string]string{sysfs + gpu + "/resource": absent}, []string{"gpu-bar unknown 0000:05:00.0: is not there"}},
		"windows of few words": {
			nil, map[string]string{sysfs + gpu + "/resource": "0x1 0x2\n"},
			[]string{`gpu-bar unknown 0000:05:00.0: BAR 0 is "0x1 0x2": want start, end and flags`},
		},
		"no uverbs":             {nil, map[string]string{"dev/infiniband/uverbs1": absent}, []string{"rdma-devices wrong 0000:07:00.0 eth2 mlx5_1: is not there"}},
		"no connection manager": {nil, map[string]string{"dev/infiniband/rdma_cm": absent}, []string{"rdma-devices wrong : is not there"}},
		"verbs that nobody may see": {
			nil, map[string]string{"dev/infiniband/uverbs1": hidden}, []string{"rdma-devices unknown 0000:07:00.0 eth2 mlx5_1: may not be read"},
		},
		"a connection manager that nobody may see": {nil, map[string]string{"dev/infiniband/rdma_cm": hidden}, []string{"rdma-devices unknown : may not be read"}},
		"port down": {
			nil, map[string]string{"sys/class/infiniband/mlx5_0/ports/1/phys_state": "3: Disabled\n", "sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n"},
			[]string{"rdma-ports wrong 0000:06:00.0 eth1 mlx5_0: DOWN, Disabled"},
		},
		"port not active": {
			nil, map[string]string{"sys/class/infiniband/mlx5_0/ports/1/state": "2: INIT\n"},
			[]string{"rdma-ports wrong 0000:06:00.0 eth1 mlx5_0: INIT, LinkUp"},
		},
		"port that cannot be read": {
			nil, map[string]string{"sys/class/infiniband/mlx5_0/ports/1/state": absent},
			[]string{"rdma-ports unknown 0000:06:00.0 eth1 mlx5_0: is not there"},
		},
		"limited pods": {
			nil, map[string]string{"sys/fs/cgroup/kubepods.slice/rdma.max": "mlx5_0 hca_handle=max hca_object=max\nmlx5_1 hca_handle=2 hca_object=max\nrxe0 hca_handle=1 hca_object=1\n"},
			[]string{"rdma-limit wrong 0000:07:00.0 eth2 mlx5_1: hca_handle=2"},
		},
		"limited pods of a class": {
			nil, map[string]string{"sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/rdma.max": "mlx5_0 hca_handle=2 hca_object=2000\n"},
			[]string{"rdma-limit wrong 0000:06:00.0 eth1 mlx5_0: hca_handle=2 hca_object=2000"},
		},
		"limited pods by the first version": {
			nil, map[string]string{"sys/fs/cgroup/kubepods.slice/rdma.max": absent, "sys/fs/cgroup/rdma/kubepods/rdma.max": "mlx5_0 hca_handle=2 hca_object=2000\n"},
			[]string{"rdma-limit wrong 0000:06:00.0 eth1 mlx5_0: hca_handle=2 hca_object=2000"},
		},
		"limits that nobody may read": {nil, map[string]string{"sys/fs/cgroup/kubepods.slice/rdma.max": unreadable}, []string{"rdma-limit unknown : may not be read"}},
		"no controller of RDMA": {
			nil, map[string]string{"sys/fs/cgroup/kubepods.slice/rdma.max": absent, "sys/fs/cgroup/kubepods.slice/pids.max": "max\n"}, nil,
		},
		"no GID of the address": {
			nil, map[string]string{"sys/class/infiniband/mlx5_0/ports/1/gids/2": absent},
			[]string{"gid wrong 0000:06:00.0 eth1 mlx5_0: no RoCE v2 GID of 10.0.0.1"},
		},
		"a GID of another interface": {
			nil, map[string]string{"sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/2": "eth1.7\n"},
			[]string{"gid wrong 0000:06:00.0 eth1 mlx5_0: no RoCE v2 GID of 10.0.0.1"},
		},
		"GIDs that nobody may read": {
			nil, map[string]string{"sys/class/infiniband/mlx5_0/ports/1/gids/0": unreadable},
			[]string{"gid unknown 0000:06:00.0 eth1 mlx5_0: may not be read"},
		},
		"an interface without an address": {
			func(m *model.Machine) { m.NICs[0].Interface.Addresses = nil },
			map[string]string{"sys/class/infiniband/mlx5_0/ports/1/gids/2": absent}, nil,
		},
		"iWARP": {nil, map[string]string{"sys/class/infiniband/mlx5_0/node_type": "4: RNIC\n", "sys/class/infiniband/mlx5_0/ports/1/gids/2": absent}, nil},
		"a kind of device that nobody tells": {
			nil, map[string]string{"sys/class/infiniband/mlx5_0/node_type": absent},
			[]string{"gid unknown 0000:06:00.0 eth1 mlx5_0: is not there"},
		},
		"errors of a port": {
			nil, map[string]string{
				"sys/class/infiniband/mlx5_0/ports/1/counters/link_downed": "2\n", "sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err": "7\n",
			},
			[]string{"port-errors wrong 0000:06:00.0 eth1 mlx5_0: link_downed 2, packet_seq_err 7 since the driver was loaded"},
		},
		"packets of a fabric that was congested": {
			nil, map[string]string{"sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence": "7\n"}, nil,
		},
		"counters that firmware keeps": {
			nil, map[string]string{"sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error": unreadable},
			[]string{"port-errors unknown 0000:06:00.0 eth1 mlx5_0: may not be read"},
		},
		"a counter that is none": {
			nil, map[string]string{"sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error": "N/A (not supported)\n"},
			[]string{`port-errors unknown 0000:06:00.0 eth1 mlx5_0: counters/symbol_error: strconv.ParseUint: parsing "N/A (not supported)": invalid syntax`},
		},
		"a driver that counts nothing": {
			nil, map[string]string{
				"sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error": absent, "sys/class/infiniband/mlx5_0/ports/1/counters/link_downed": absent,
				"sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence": absent,
			}, nil,
		},
		"interface down": {nil, map[string]string{"sys/class/net/eth2/operstate": "down\n"}, []string{"links wrong 0000:07:00.0 eth2 mlx5_1: down"}},
		"a NIC that nobody has set up": {
			func(m *model.Machine) {
				m.NICs[1].Interface.Addresses, m.NICs[1].Interface.Up = nil, new(false)
			},
			portDown("1", "eth2"), nil,
		},
		"a NIC that is set up, and has no carrier": {
			func(m *model.Machine) { m.NICs[1].Interface.Addresses, m.NICs[1].Interface.Up = nil, new(true) },
			portDown("1", "eth2"),
			[]string{"links wrong 0000:07:00.0 eth2 mlx5_1: down", "rdma-ports wrong 0000:07:00.0 eth2 mlx5_1: DOWN, Disabled"},
		},
		"a NIC with an address that is down": {
			func(m *model.Machine) { m.NICs[1].Interface.Up = new(false) }, portDown("1", "eth2"),
			[]string{"links wrong 0000:07:00.0 eth2 mlx5_1: down", "rdma-ports wrong 0000:07:00.0 eth2 mlx5_1: DOWN, Disabled"},
		},
		"a NIC that the host needs, and that is down": {
			func(m *model.Machine) {
				m.NICs[1].Interface.Addresses, m.NICs[1].Interface.Up, m.NICs[1].Withheld = nil, new(false), new("is part of bond0")
			},
			portDown("1", "eth2"),
			[]string{"links wrong 0000:07:00.0 eth2 mlx5_1: down", "rdma-ports wrong 0000:07:00.0 eth2 mlx5_1: DOWN, Disabled"},
		},
		"a port of InfiniBand whose interface nobody has set up": {
			func(m *model.Machine) {
				m.NICs[1].Interface.Addresses, m.NICs[1].Interface.Up = nil, new(false)
				m.NICs[1].RDMA.LinkLayer = new("InfiniBand")
			},
			portDown("1", "eth2"), []string{"rdma-ports wrong 0000:07:00.0 eth2 mlx5_1: DOWN, Disabled"},
		},
		"an interface that says nothing": {
			nil, map[string]string{"sys/class/net/eth2/operstate": absent}, []string{"links unknown 0000:07:00.0 eth2 mlx5_1: is not there"},
		},
		"a carrier that nobody counts": {nil, map[string]string{"sys/class/net/eth2/carrier_changes": absent}, nil},
		"a carrier of which nobody may read": {
			nil, map[string]string{"sys/class/net/eth2/carrier_changes": unreadable}, []string{"links unknown 0000:07:00.0 eth2 mlx5_1: may not be read"},
		},
		"answers for others": {
			nil, map[string]string{
				"proc/sys/net/ipv4/conf/eth1/arp_ignore": "0\n", "proc/sys/net/ipv4/conf/all/arp_ignore": "0\n", "proc/sys/net/ipv4/conf/eth2/rp_filter": "1\n",
			},
			[]string{"arp wrong 0000:06:00.0 eth1 mlx5_0: arp_ignore 0", "arp wrong 0000:07:00.0 eth2 mlx5_1: rp_filter 1"},
		},
		"answers of which nobody tells": {
			nil, map[string]string{"proc/sys/net/ipv4/conf/eth1/arp_announce": absent, "proc/sys/net/ipv4/conf/all/rp_filter": "on\n"},
			[]string{
				"arp unknown 0000:06:00.0 eth1 mlx5_0: is not there",
				`arp unknown 0000:06:00.0 eth1 mlx5_0: strconv.Atoi: parsing "on": invalid syntax`,
				`arp unknown 0000:07:00.0 eth2 mlx5_1: strconv.Atoi: parsing "on": invalid syntax`,
			},
		},
		"networks of their own": {
			func(m *model.Machine) { m.NICs[1].Interface.Addresses[0] = netip.MustParsePrefix("10.0.1.2/24") },
			map[string]string{
				"proc/sys/net/ipv4/conf/eth1/arp_ignore": "0\n", "proc/sys/net/ipv4/conf/all/arp_ignore": "0\n",
				"sys/class/infiniband/mlx5_1/ports/1/gids/2": "0000:0000:0000:0000:0000:ffff:0a00:0102\n",
			}, nil,
		},
		"memory that must not be locked": {
			nil, map[string]string{"proc/812/limits": "Max locked memory         8388608              8388608              bytes\n"},
			[]string{"memlock wrong : 8388608 bytes"},
		},
		"no runtime":            {nil, map[string]string{"proc/812/comm": "dockerd\n"}, []string{"memlock unknown : no containerd or crio runs here"}},
		"limits of a few words": {nil, map[string]string{"proc/812/limits": "Max locked memory unlimited\n"}, []string{`memlock unknown : limits of locked memory "unlimited": want two`}},
		"no NRI":                {nil, map[string]string{"run/nri/nri.sock": absent}, []string{"runtime wrong : is not there"}},
		"CDI that is off": {
			nil, map[string]string{"etc/containerd/config.toml": "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n"},
			[]string{"runtime wrong : enable_cdi = false of io.containerd.cri.v1.runtime"},
		},
		"CDI that is off in the configuration of an older containerd": {
			nil, map[string]string{"etc/containerd/config.toml": "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  enable_cdi = false\n"},
			[]string{"runtime wrong : enable_cdi = false of io.containerd.grpc.v1.cri"},
		},
		"CDI that is off in the file that containerd was started with": {
			nil, map[string]string{
				"proc/812/cmdline":    "containerd\x00-c\x00/srv/containerd.toml\x00-a\x00/run/c.sock\x00",
				"srv/containerd.toml": "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n",
			},
			[]string{"runtime wrong : enable_cdi = false of io.containerd.cri.v1.runtime"},
		},
		"CDI that is off for a containerd that does not run": {
			nil, map[string]string{"proc/812/comm": "crio\n", "etc/containerd/config.toml": "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n"}, nil,
		},
		"a containerd of which nothing is configured": {nil, map[string]string{"etc/containerd/config.toml": absent}, nil},
		"a configuration of containerd that root alone may read": {
			nil, map[string]string{"etc/containerd/config.toml": unreadable}, []string{"runtime unknown : may not be read"},
		},
		"a configuration of containerd that is none": {
			nil, map[string]string{"etc/containerd/config.toml": "version = 3\npassword = 1secret\n"},
			[]string{"runtime unknown : line 2 is no TOML that containerd takes"},
		},
		"a word for a plugin's settings": {
			nil, map[string]string{"etc/containerd/config.toml": "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = \"no\"\n"},
			[]string{"runtime unknown : plugin io.containerd.cri.v1.runtime: enable_cdi is neither true nor false"},
		},
		"files where folders of CDI would be": {
			nil, map[string]string{"etc/cdi/nvidia.yaml": absent, "etc/cdi": "", "run/cdi/plumbline.json": absent, "run/cdi": ""},
			[]string{"runtime wrong : is no directory", "runtime wrong : is no directory"},
		},
		"no folders of CDI": {nil, map[string]string{"etc/cdi/nvidia.yaml": absent, "run/cdi/plumbline.json": absent}, nil},
		"a kubelet without DRA": {
			nil, map[string]string{"var/lib/kubelet/config.yaml": "featureGates:\n  DynamicResourceAllocation: false\n"},
			[]string{"runtime wrong : feature gate DynamicResourceAllocation=false"},
		},
		"a kubelet without DRA that is down": {
			nil, map[string]string{"proc/900/comm": absent, "var/lib/kubelet/config.yaml": "featureGates:\n  DynamicResourceAllocation: false\n"},
			[]string{"runtime wrong : feature gate DynamicResourceAllocation=false"},
		},
		"a kubelet that was started without DRA": {
			nil, map[string]string{"proc/900/cmdline": "kubelet\x00--feature-gates\x00A=true,DynamicResourceAllocation=false\x00"},
			[]string{"runtime wrong : feature gate DynamicResourceAllocation=false"},
		},
		"a command line that has the last word": {
			nil, map[string]string{
				"proc/900/cmdline":            "kubelet\x00--feature-gates=DynamicResourceAllocation=false\x00--feature-gates=DynamicResourceAllocation=true\x00",
				"var/lib/kubelet/config.yaml": "featureGates:\n  DynamicResourceAllocation: false\n",
			}, nil,
		},
		"a kubelet whose gates are its own":                {nil, map[string]string{"var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n"}, nil},
		"a kubelet without a configuration":                {nil, map[string]string{"var/lib/kubelet/config.yaml": absent}, nil},
		"a kubelet's configuration that nobody may read":   {nil, map[string]string{"var/lib/kubelet/config.yaml": unreadable}, []string{"runtime unknown : may not be read"}},
		"a kubelet's command line that nobody may read":    {nil, map[string]string{"proc/900/cmdline": unreadable}, []string{"runtime unknown : may not be read"}},
		"a containerd's command line that nobody may read": {nil, map[string]string{"proc/812/cmdline": unreadable}, []string{"runtime unknown : may not be read"}},
		"a narrow link": {
			func(m *model.Machine) { m.Functions[5].Link.Width = 8 }, nil,
			[]string{"pcie-link wrong 0000:06:00.0 eth1 mlx5_0: 32 GT/s x8 of 32 GT/s x16"},
		},
		"a slow bridge above a NIC": {
			func(m *model.Machine) { m.Functions[2].Link.SpeedMTs = 8000 }, nil,
			[]string{"pcie-link wrong 0000:04:01.0: 8 GT/s x16 of 32 GT/s x16"},
		},
		"a GPU that saves power": {func(m *model.Machine) { m.Functions[4].Link.SpeedMTs = 2500 }, nil, nil},
		"short reads": {
			nil, map[string]string{sysfs + nicA + "/config": config(read512|relaxed, -1)},
			[]string{"max-read-request wrong 0000:06:00.0 eth1 mlx5_0: 512 bytes"},
		},
		"strict ordering": {
			nil, map[string]string{sysfs + nicB + "/config": config(read4096, -1)},
			[]string{"relaxed-ordering wrong 0000:07:00.0 eth2 mlx5_1: off"},
		},
		"registers that only root may read": {
			nil, map[string]string{sysfs + nicA + "/config": config(goodControl, -1)[:64], sysfs + nicB + "/config": unreadable},
			[]string{
				"ats unknown 0000:06:00.0 eth1 mlx5_0: only its first 64 bytes may be read; want root",
				"ats unknown 0000:07:00.0 eth2 mlx5_1: may not be read",
				"max-payload unknown 0000:06:00.0 eth1 mlx5_0: only its first 64 bytes may be read; want root",
				"max-payload unknown 0000:07:00.0 eth2 mlx5_1: may not be read",
				"max-read-request unknown 0000:06:00.0 eth1 mlx5_0: only its first 64 bytes may be read; want root",
				"max-read-request unknown 0000:07:00.0 eth2 mlx5_1: may not be read",
				"relaxed-ordering unknown 0000:06:00.0 eth1 mlx5_0: only its first 64 bytes may be read; want root",
				"relaxed-ordering unknown 0000:07:00.0 eth2 mlx5_1: may not be read",
			},
		},
		"large packets below a bridge that takes small ones": {
			nil, map[string]string{sysfs + nicA + "/config": config(goodControl|payload256, -1)},
			[]string{"max-payload wrong 0000:06:00.0 eth1 mlx5_0: 256 bytes, 0000:04:01.0 above it 128 bytes, which drops what is larger"},
		},
		"packets smaller than the switch takes": {
			nil, map[string]string{sysfs + switchPort + "/config": config(payload256, -1)},
			[]string{
				"max-payload wrong 0000:05:00.0: 128 bytes, 0000:03:00.0 above it 256 bytes",
				"max-payload wrong 0000:06:00.0 eth1 mlx5_0: 128 bytes, 0000:03:00.0 above it 256 bytes",
				"max-payload wrong 0000:07:00.0 eth2 mlx5_1: 128 bytes, 0000:03:00.0 above it 256 bytes",
			},
		},
		"a bridge that nobody may read": {
			nil, map[string]string{sysfs + portOfGPU + "/config": unreadable},
			[]string{"acs unknown 0000:04:00.0: may not be read", "max-payload unknown 0000:05:00.0: may not be read"},
		},
		"a bridge of PCI": {nil, map[string]string{sysfs + switchPort + "/config": strings.Repeat("\x00", 256)}, nil},
		"translation by the device": {
			nil, map[string]string{sysfs + gpu + "/config": withATS(config(0, -1), pciconfig.ATSEnabled)},
			[]string{"ats wrong 0000:05:00.0: ATS on"},
		},
		"ATS that is off": {nil, map[string]string{sysfs + nicA + "/config": withATS(config(goodControl, -1), 0x1f)}, nil},
		"virtual functions, whose registers are another's": {
			func(m *model.Machine) {
				up := address(t, nicA)
				m.Functions[6].PhysicalFunction = &up
			}, map[string]string{sysfs + nicB + "/config": unreadable}, nil,
		},
		"traffic by the root": {
			nil, map[string]string{sysfs + portOfGPU + "/config": config(0, 0x1d)},
			[]string{"acs wrong 0000:04:00.0: ACS control 0011101"},
		},
		"a switch without ACS": {nil, map[string]string{sysfs + portOfGPU + "/config": config(0, -1)}, nil},
		"a virtual machine, where others decide": {
			nil, map[string]string{
				"proc/cpuinfo": "flags\t: fpu hypervisor\n", sysfs + portOfGPU + "/config": config(0, 0x1d), sysfs + gpu + "/iommu_group/type": "DMA-FQ\n",
				sysfs + gpu + "/config": withATS(config(payload256, -1), pciconfig.ATSEnabled),
			}, nil,
		},
		"translated addresses": {nil, map[string]string{sysfs + gpu + "/iommu_group/type": "DMA-FQ\n"}, []string{"iommu wrong 0000:05:00.0: DMA-FQ"}},
		"no IOMMU":             {nil, map[string]string{sysfs + gpu + "/iommu_group/type": absent}, nil},
		"a processor without flags": {
			nil, map[string]string{"proc/cpuinfo": "processor : 0\n"},
			[]string{
				"acs unknown : proc/cpuinfo: no line of flags", "ats unknown : proc/cpuinfo: no line of flags",
				"iommu unknown : proc/cpuinfo: no line of flags", "max-payload unknown : proc/cpuinfo: no line of flags",
			},
		},
		"huge pages elsewhere": {
			nil, map[string]string{pagesOf(0) + "/hugepages-1048576kB/nr_hugepages": "0\n", pagesOf(1) + "/hugepages-1048576kB/nr_hugepages": "16\n"},
			[]string{"hugepages wrong NUMA node 0: hugepages-1048576kB 0, of all: node1 16"},
		},
		"huge pages on the node of the devices alone": {nil, map[string]string{pagesOf(1) + "/hugepages-2048kB/nr_hugepages": "0\n"}, nil},
		"no huge pages": {nil, map[string]string{pagesOf(0) + "/hugepages-2048kB/nr_hugepages": "0\n", pagesOf(1) + "/hugepages-2048kB/nr_hugepages": "0\n"}, nil},
		"huge pages that nobody may count": {
			nil, map[string]string{pagesOf(1) + "/hugepages-2048kB/nr_hugepages": unreadable},
			[]string{"hugepages unknown : may not be read"},
		},
		"pages that move":             {nil, map[string]string{"proc/sys/kernel/numa_balancing": "1\n"}, []string{"numa-balancing wrong : 1"}},
		"pages of which nobody tells": {nil, map[string]string{"proc/sys/kernel/numa_balancing": unreadable}, []string{"numa-balancing unknown : may not be read"}},
		"translation of which nobody tells": {
			nil, map[string]string{sysfs + nicA + "/iommu_group/type": unreadable}, []string{"iommu unknown 0000:06:00.0 eth1 mlx5_0: may not be read"},
		},
		"a device of no node":   {func(m *model.Machine) { m.Functions[6].NUMANode = nil }, nil, []string{"numa wrong 0000:07:00.0 eth2 mlx5_1: -1"}},
		"small packets":         {func(m *model.Machine) { *m.NICs[0].Interface.MTU = 1500 }, nil, []string{"mtu wrong 0000:06:00.0 eth1 mlx5_0: 1500"}},
		"an exclusive mode":     {nil, map[string]string{"sys/module/ib_core/parameters/netns_mode": "N\n"}, nil},
		"a mode nobody tells":   {nil, map[string]string{"sys/module/ib_core/parameters/netns_mode": absent}, []string{"rdma-namespaces unknown : is not there"}},
		"firmware of two kinds": {nil, map[string]string{"sys/class/infiniband/mlx5_1/fw_ver": "28.41.1000\n"}, []string{"firmware wrong MT_0000000838: 28.39.1002 on mlx5_0; 28.41.1000 on mlx5_1"}},
		"firmware that a NIC does not tell": {
			nil, map[string]string{"sys/class/infiniband/mlx5_1/fw_ver": failing}, []string{"firmware unknown 0000:07:00.0 eth2 mlx5_1: read sys/class/infiniband/mlx5_1/fw_ver: input/output error"},
		},
		"a board that a NIC does not tell": {
			nil, map[string]string{"sys/class/infiniband/mlx5_1/board_id": failing}, []string{"firmware unknown 0000:07:00.0 eth2 mlx5_1: read sys/class/infiniband/mlx5_1/board_id: input/output error"},
		},
		"a board that nobody may read": {
			nil, map[string]string{"sys/class/infiniband/mlx5_1/board_id": unreadable}, []string{"firmware unknown 0000:07:00.0 eth2 mlx5_1: may not be read"},
		},
		"a driver that names no board": {
			nil, map[string]string{"sys/class/infiniband/mlx5_1/board_id": absent, "sys/class/infiniband/mlx5_1/fw_ver": unreadable}, nil,
		},
		"a bus whose errors nobody may read": {
			nil, map[string]string{sysfs + nicA + "/aer_dev_fatal": unreadable}, []string{"pcie-errors unknown 0000:06:00.0 eth1 mlx5_0: may not be read"},
		},
		"a bus that does not answer": {
			nil, map[string]string{sysfs + nicA + "/aer_dev_nonfatal": failing},
			[]string{"pcie-errors unknown 0000:06:00.0 eth1 mlx5_0: read " + sysfs + nicA + "/aer_dev_nonfatal: input/output error"},
		},
		"a kernel that counts no errors": {nil, map[string]string{sysfs + nicA + "/aer_dev_fatal": absent}, nil},
		"errors that were corrected":     {nil, map[string]string{sysfs + nicA + "/aer_dev_correctable": "RxErr 7\nTOTAL_ERR_COR 7\n"}, nil},
		"an Xid and a NIC's health": {
			nil, map[string]string{"dev/kmsg": kernelSays("NVRM: Xid (PCI:0000:05:00): 79, pid=1, GPU has fallen off the bus.",
				"NVRM: Xid (PCI:0000:05:00): 31, pid=2, a program's own fault", "mlx5_core 0000:07:00.0: poll_health:1: device's health compromised - reached miss count",
				"mlx5_core 0000:07:00.0: poll_health:1: Fatal error 3 detected")},
			[]string{
				"kernel-log wrong 0000:05:00.0: 1 message, the last 1m0s after the start of the kernel: NVRM: Xid (PCI:0000:05:00): 79, pid=1, GPU has fallen off the bus.",
				"kernel-log wrong 0000:07:00.0 eth2 mlx5_1: 2 messages, the last 4m0s after the start of the kernel: mlx5_core 0000:07:00.0: poll_health:1: Fatal error 3 detected",
			},
		},
		"errors on the way to a NIC, and of its slot and cable": {
			nil, map[string]string{"dev/kmsg": kernelSays("pcieport 0000:03:00.0: AER: Uncorrected (Non-Fatal) error received: 0000:06:00.0",
				"pcieport 0000:03:00.0: AER: Corrected error received: 0000:06:00.0", "mlx5_core 0000:06:00.0: mlx5_pcie_event:299: Detected insufficient power on the PCIe slot (27W).",
				"mlx5_core 0000:06:00.0: mlx5_pcie_event:299: PCIe slot advertised sufficient power (27W).",
				"mlx5_core 0000:06:00.0: Port module event: module 0, Cable plugged", "mlx5_core 0000:ee:00.0: Port module event[error]: module 0, Cable error, Bus stuck")},
			[]string{
				"kernel-log wrong 0000:06:00.0 eth1 mlx5_0: 1 message, the last 1m0s after the start of the kernel: pcieport 0000:03:00.0: AER: Uncorrected (Non-Fatal) error received: 0000:06:00.0",
				"kernel-log wrong 0000:06:00.0 eth1 mlx5_0: 1 message, the last 3m0s after the start of the kernel: mlx5_core 0000:06:00.0: mlx5_pcie_event:299: Detected insufficient power on the PCIe slot (27W).",
				"kernel-log wrong : 1 message, the last 6m0s after the start of the kernel: mlx5_core 0000:ee:00.0: Port module event[error]: module 0, Cable error, Bus stuck",
			},
		},
		"modules that do not fit": {
			nil, map[string]string{"dev/kmsg": kernelSays("nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
				"nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing")},
			[]string{
				"kernel-log wrong : 1 message, the last 1m0s after the start of the kernel: nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
				"kernel-log wrong : 1 message, the last 2m0s after the start of the kernel: nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
			},
		},
		"what a program wrote into the kernel's log": {
			nil, map[string]string{"dev/kmsg": "12,1,0,-;NVRM: Xid (PCI:0000:05:00): 79, a joke\n"}, nil,
		},
		"a message that would move a terminal's cursor": {
			nil, map[string]string{"dev/kmsg": "4,1,0,-;NVRM: Xid (PCI:0000:05:00): 79, \x1b[2J\r" + strings.Repeat("é", 200) + "\n"},
			[]string{"kernel-log wrong 0000:05:00.0: 1 message, the last 0s after the start of the kernel: NVRM: Xid (PCI:0000:05:00): 79, \ufffd[2J\ufffd" + strings.Repeat("é", 129) + "…"},
		},
		"a log that root alone may read": {nil, map[string]string{"dev/kmsg": unreadable}, []string{"kernel-log unknown : may not be read"}},
		"a log that is none":             {nil, map[string]string{"dev/kmsg": "hello\n"}, []string{`kernel-log unknown : line 1 of the kernel's log: "hello": want PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT`}},
		"a log without an end": {
			nil, map[string]string{"dev/kmsg": strings.Repeat("6,1,0,-;nothing\n", maxLog/16+1)},
			[]string{"kernel-log unknown : the log is longer than 4 MiB, and the rest was not read"},
		},
		"a NIC's driver that nobody tells": {
			nil, map[string]string{sysfs + nicA + "/driver": failing},
			[]string{"driver-reload unknown 0000:06:00.0 eth1 mlx5_0: readlink " + sysfs + nicA + "/driver: invalid argument"},
		},
		"a program that root alone may look at": {
			nil, map[string]string{"proc/812/fd": unreadable}, []string{"driver-reload unknown : may not be read"},
		},
		"a program that root alone may look at, while nothing of verbs is open": {
			nil, map[string]string{
				"proc/812/fd": unreadable, "sys/module/ib_uverbs/refcnt": "1\n", "sys/module/ib_uverbs/holders/mlx5_ib": "",
			}, nil,
		},
		"storage of which nobody tells": {
			nil, map[string]string{"sys/module/nvme_rdma/refcnt": "many\n"},
			[]string{`driver-reload unknown : what hangs from module mlx5_core: strconv.Atoi: parsing "many": invalid syntax`},
		},
		"errors on the bus": {
			nil, map[string]string{sysfs + nicA + "/aer_dev_nonfatal": "Undefined 0\nCmpltTO 3\nTOTAL_ERR_NONFATAL 3\n"},
			[]string{"pcie-errors wrong 0000:06:00.0 eth1 mlx5_0: CmpltTO 3 since the device was found"},
		},
		"NICs below another root": {
			func(m *model.Machine) {
				m.Roots = append(m.Roots, model.PCIRoot{Name: "pci0000:80", Path: "devices/pci0000:80", Published: true})
				for i := range m.Functions {
					if m.Functions[i].Vendor == vendorMellanox {
						m.Functions[i].Root, m.Functions[i].Parent = "pci0000:80", nil
					}
				}
			}, nil,
			[]string{"pairs wrong 0000:05:00.0: NODE: 0000:06:00.0 eth1 mlx5_0"},
		},
		"NICs below another root, one with Data Direct below the GPU's": {nicsElsewhere, nil, nil},
		"Data Direct of no NIC below the GPU's root": {
			nicsElsewhere, map[string]string{sysfs + direct + "/vpd": vpd("c")},
			[]string{
				"data-direct wrong 0000:08:00.0: no NIC has its keyword V3 of the vital product data",
				"pairs wrong 0000:05:00.0: NODE: 0000:06:00.0 eth1 mlx5_0",
			},
		},
		"Data Direct below the GPU's root of which root alone may read": {
			nicsElsewhere, map[string]string{sysfs + direct + "/vpd": unreadable},
			[]string{"data-direct unknown 0000:08:00.0: may not be read", "pairs unknown 0000:05:00.0: may not be read"},
		},
		"Data Direct of a NIC that may be any": {
			nil, map[string]string{sysfs + nicA + "/vpd": vpd("")[:9], sysfs + nicB + "/vpd": "\x78"},
			[]string{"data-direct unknown 0000:08:00.0: the vital product data ends too soon: unexpected EOF"},
		},
		"Data Direct without its keyword": {
			nil, map[string]string{sysfs + direct + "/vpd": "\x78"},
			[]string{"data-direct unknown 0000:08:00.0: no such keyword in the vital product data"},
		},
		"vital product data that nobody asks for": {
			func(m *model.Machine) { m.Functions = m.Functions[:7] }, map[string]string{sysfs + nicA + "/vpd": unreadable}, nil,
		},
		"packets trusted by other marks": {
			nil, map[string]string{"sys/class/net/eth2/qos/trust": "pcp\n"},
			[]string{"qos wrong 15b3:0000: qos-trust dscp on mlx5_0; qos-trust pcp on mlx5_1"},
		},
		"congestion told of another priority": {
			nil, map[string]string{"sys/class/net/eth2/ecn/roce_np/enable/4": "1\n", "sys/class/net/eth2/ecn/roce_rp/enable/3": "0\n"},
			[]string{
				"qos wrong 15b3:0000: ecn-roce-np priorities 3 on mlx5_0; ecn-roce-np priorities 3,4 on mlx5_1",
				"qos wrong 15b3:0000: ecn-roce-rp none on mlx5_1; ecn-roce-rp priorities 3 on mlx5_0",
			},
		},
		"another traffic class": {
			nil, map[string]string{
				"sys/class/infiniband/mlx5_1/tc/1/traffic_class": "\n", "sys/kernel/config/rdma_cm/mlx5_1/ports/1/default_roce_tos": "0\n",
			},
			[]string{
				"qos wrong 15b3:0000: roce-tos 0 on mlx5_1; roce-tos 106 on mlx5_0",
				"qos wrong 15b3:0000: roce-traffic-class 106 on mlx5_0; roce-traffic-class not set on mlx5_1",
			},
		},
		"a traffic class with rules for addresses": {
			nil, map[string]string{"sys/class/infiniband/mlx5_1/tc/1/traffic_class": "Global tclass=106\nsrc ip=10.0.0.1 tclass=96\n"}, nil,
		},
		"a traffic class that is none": {
			nil, map[string]string{"sys/class/infiniband/mlx5_1/tc/1/traffic_class": "Global tclass=x\n"},
			[]string{`qos unknown 0000:07:00.0 eth2 mlx5_1: traffic class: strconv.ParseUint: parsing "x": invalid syntax`},
		},
		"priorities that nobody may read": {
			nil, map[string]string{"sys/class/net/eth2/ecn/roce_np/enable/0": unreadable},
			[]string{"qos unknown 0000:07:00.0 eth2 mlx5_1: may not be read"},
		},
		"another model, whose packets are others": {
			func(m *model.Machine) { m.Functions[6].Device = 0x1021 }, map[string]string{"sys/class/net/eth2/qos/trust": "pcp\n"}, nil,
		},
		"one of which nobody made the folder": {nil, map[string]string{"sys/kernel/config/rdma_cm/mlx5_1/ports/1/default_roce_tos": absent}, nil},
	}
}

// TestChecks: the check that looks where a host is broken says so of the right thing, and no
// other says anything new.
func TestChecks(t *testing.T) {
	for name, tc := range brokenHosts(t) {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Run(hostWith(t, tc.machine, tc.edits)) {
				if f.Verdict == hosts.OK {
					continue
				}
				got = append(got, strings.Join([]string{f.Check, string(f.Verdict), f.Subject + ": " + f.Found}, " "))
				if f.Verdict == hosts.Wrong && (f.Want == "" || f.Fix == "" || !strings.HasPrefix(f.Source, "/")) {
					t.Errorf("%s: want %q, fix %q, source %q: each must say something", f.Check, f.Want, f.Fix, f.Source)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// exceptions are the checks that say one verdict never, with the reason.
var exceptions = map[string]string{
	"rdma-namespaces wrong": "which mode is right only the pods know",
	"driver-reload wrong":   "that the host needs its driver is no fault",
	"gpu-driver unknown":    "the inventory has read it; a link that it could not read is no driver",
	"pcie-link unknown":     "the inventory has read it; of a link without figures there is nothing to say",
	"numa unknown":          "the inventory has read it; no node is what is wrong",
	"mtu unknown":           "the inventory has read it; of an interface without one there is nothing to say",
}

// TestEveryCheckIsBroken: a check without a host on which it finds something wrong, and
// without one on which it cannot tell, is one of the exceptions, and those are needed.
func TestEveryCheckIsBroken(t *testing.T) {
	said := map[string]bool{}
	for _, tc := range brokenHosts(t) {
		for _, want := range tc.want {
			words := strings.Fields(want)
			said[words[0]+" "+words[1]] = true
		}
	}
	left := maps.Clone(exceptions)
	for _, c := range Checks() {
		for _, v := range []hosts.Verdict{hosts.Wrong, hosts.Unknown} {
			key := c.Name + " " + string(v)
			_, excepted := exceptions[key]
			delete(left, key)
			if said[key] == excepted {
				t.Errorf("%s: a host where it is so: %v, an exception: %v; want one of them", key, said[key], excepted)
			}
		}
	}
	for key := range left {
		t.Errorf("the exception %s is of no check", key)
	}
}

// TestNotices: what is told and not judged is not said of a host where it is otherwise.
func TestNotices(t *testing.T) {
	spare := func(m *model.Machine) {
		m.NICs[1].Interface.Addresses, m.NICs[1].Interface.Up = nil, new(false)
		m.NICs[0].Interface.SpeedMbps = new(400000)
	}
	edits := portDown("1", "eth2")
	edits["sys/class/net/eth1/carrier_changes"] = "3\n"
	edits["sys/bus/pci/devices/"+nicA+"/aer_dev_correctable"] = "RxErr 7\nBadTLP 0\nTOTAL_ERR_COR 7\n"
	found := map[string]string{}
	for _, f := range Run(hostWith(t, spare, edits)) {
		if f.Verdict == hosts.OK {
			found[f.Check+" "+f.Subject] += f.Found + "\n"
		}
	}
	for of, want := range map[string]string{
		"links 0000:06:00.0 eth1 mlx5_0":       "up, 400 Gbit/s, 3 changes of its carrier\n",
		"links 0000:07:00.0 eth2 mlx5_1":       "down: nobody has set it up; a claim that gets it does\n",
		"rdma-ports 0000:07:00.0 eth2 mlx5_1":  "DOWN, Disabled: nobody has set it up; a claim that gets it does\n",
		"pcie-errors 0000:06:00.0 eth1 mlx5_0": "none\nRxErr 7 since the device was found, all corrected\n",
		"kernel-log ":                          "nothing of GPUs, NICs and their modules in 2 messages\n",
		"driver-reload ":                       "nothing of the host hangs from module mlx5_core\n",
	} {
		if found[of] != want {
			t.Errorf("%s: %q, want %q", of, found[of], want)
		}
	}
}

// A host without GPUs and RDMA is asked only what every node must have.
func TestPlainHost(t *testing.T) {
	h := hostWith(t, func(m *model.Machine) { m.NICs, m.Functions = nil, nil }, nil)
	for _, f := range Run(h) {
		if f.Check != "runtime" && f.Check != "numa-balancing" && f.Check != "kernel-log" {
			t.Errorf("%+v", f)
		}
	}
}

// A device decides what its configuration space says.
func FuzzConfigSpace(f *testing.F) {
	f.Add([]byte(config(goodControl, 0x1d)))
	f.Add([]byte(config(0, -1)[:64]))
	f.Add([]byte(strings.Repeat("\xff", 4096)))
	f.Fuzz(func(t *testing.T, data []byte) {
		h := hostWith(t, nil, map[string]string{"sys/bus/pci/devices/" + nicA + "/config": string(data), "sys/bus/pci/devices/" + portOfGPU + "/config": string(data)})
		Run(h)
	})
}

// Drivers put into the kernel's log what devices say.
func FuzzKernelLog(f *testing.F) {
	f.Add(kernelSays("NVRM: Xid (PCI:0000:05:00): 79, pid=1", "mlx5_core 0000:06:00.0: Port module event: module 0, Cable unplugged"))
	f.Add("4,1,0,-;pcieport 0000:03:00.0: AER: Uncorrected \x1b]0;\x07\n KEY=\n")
	f.Add("4,1,0;" + strings.Repeat("mlx5_core health compromised ", 40))
	f.Fuzz(func(t *testing.T, log string) {
		r := &report{}
		kernelLog(hostWith(t, nil, map[string]string{"dev/kmsg": log}), r)
		for _, f := range r.findings {
			if printable.Text(f.Found) != f.Found && f.Verdict == hosts.Wrong || len(f.Found) > 2*maxMessage {
				t.Errorf("%q", f.Found)
			}
		}
	})
}

// TestProfile: two hosts of one kind have one profile, whatever their devices are called
// and whichever a pod has.
func TestProfile(t *testing.T) {
	kernel := fstest.MapFile{Data: []byte("6.1.0\n")}
	files := fstest.MapFS{
		"proc/sys/kernel/osrelease": &kernel, "proc/cmdline": {Data: []byte("root=UUID=secret iommu=pt quiet pci=config_acs=1\n")},
		"sys/class/infiniband/mlx5_0/fw_ver": {Data: []byte("28.39\n")}, "sys/class/infiniband/mlx5_1/fw_ver": {Data: []byte("28.39\n")},
	}
	profile := func(files fs.FS, change func(m *model.Machine)) hosts.HostProfile {
		t.Helper()
		parts := readyMachine(t)
		if change != nil {
			change(&parts)
		}
		m, err := model.New(parts)
		if err != nil {
			t.Fatal(err)
		}
		return Profile(Host{Machine: m, Files: files})
	}
	want := hosts.HostProfile{
		Kernel: "6.1.0", Settings: map[string]string{"cmdline:iommu": "pt", "cmdline:pci": "config_acs=1"},
		Devices: []hosts.DeviceProfile{
			{Kind: "gpu", ID: "10de:0000", Count: 1, Settings: map[string]string{"driver": "nvidia", "link": "32 GT/s x16"}},
			{Kind: "nic", ID: "15b3:0000", Count: 2, Settings: map[string]string{"firmware": "28.39", "link": "32 GT/s x16", "mtu": "9000"}},
		},
	}
	if diff := cmp.Diff(want, profile(files, nil)); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
	renamed := func(m *model.Machine) { m.NICs[0].Interface.Name, m.NICs[1].Interface.Name = "a", "b" }
	if diff := cmp.Diff(want, profile(files, renamed)); diff != "" {
		t.Errorf("with other names (-want +got):\n%s", diff)
	}
	held := maps.Clone(files)
	delete(held, "sys/class/infiniband/mlx5_0/fw_ver")
	if diff := cmp.Diff(want, profile(held, nil)); diff != "" {
		t.Errorf("while a pod has one (-want +got):\n%s", diff)
	}
	slower := func(m *model.Machine) {
		mtu := 1500
		m.NICs[1].Interface.MTU = &mtu
	}
	if got := profile(files, slower).Devices; len(got) != 3 || got[1].Count != 1 || got[1].Settings["mtu"] == got[2].Settings["mtu"] {
		t.Errorf("with another MTU: %+v", got)
	}
}
