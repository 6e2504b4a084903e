// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/host/pciconfig"
	"plumbline.dev/plumbline/internal/model"
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
	if file, ok := f.MapFS[name]; ok && string(file.Data) == unreadable {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return f.MapFS.Open(name)
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
		if text != absent {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return Host{Machine: m, Files: someUnreadable{tree}}
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

// TestChecks breaks a ready host in one way at a time: the check that looks there says
// so of the right thing, and no other says anything new.
func TestChecks(t *testing.T) {
	sysfs := "sys/bus/pci/devices/"
	for name, tc := range map[string]struct {
		machine func(*model.Machine)
		edits   map[string]string
		// want are "check verdict subject: found" of what is not OK.
		want []string
	}{
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
		"answers for others": {
			nil, map[string]string{
				"proc/sys/net/ipv4/conf/eth1/arp_ignore": "0\n", "proc/sys/net/ipv4/conf/all/arp_ignore": "0\n", "proc/sys/net/ipv4/conf/eth2/rp_filter": "1\n",
			},
			[]string{"arp wrong 0000:06:00.0 eth1 mlx5_0: arp_ignore 0", "arp wrong 0000:07:00.0 eth2 mlx5_1: rp_filter 1"},
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
		"pages that move":       {nil, map[string]string{"proc/sys/kernel/numa_balancing": "1\n"}, []string{"numa-balancing wrong : 1"}},
		"a device of no node":   {func(m *model.Machine) { m.Functions[6].NUMANode = nil }, nil, []string{"numa wrong 0000:07:00.0 eth2 mlx5_1: -1"}},
		"small packets":         {func(m *model.Machine) { *m.NICs[0].Interface.MTU = 1500 }, nil, []string{"mtu wrong 0000:06:00.0 eth1 mlx5_0: 1500"}},
		"an exclusive mode":     {nil, map[string]string{"sys/module/ib_core/parameters/netns_mode": "N\n"}, nil},
		"a mode nobody tells":   {nil, map[string]string{"sys/module/ib_core/parameters/netns_mode": absent}, []string{"rdma-namespaces unknown : is not there"}},
		"firmware of two kinds": {nil, map[string]string{"sys/class/infiniband/mlx5_1/fw_ver": "28.41.1000\n"}, []string{"firmware wrong MT_0000000838: 28.39.1002 on mlx5_0; 28.41.1000 on mlx5_1"}},
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
	} {
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

// A host without GPUs and RDMA is asked only what every node must have.
func TestPlainHost(t *testing.T) {
	h := hostWith(t, func(m *model.Machine) { m.NICs, m.Functions = nil, nil }, nil)
	for _, f := range Run(h) {
		if f.Check != "runtime" && f.Check != "numa-balancing" {
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
