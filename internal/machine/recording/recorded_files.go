// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package recording

// group is a set of directories whose attributes a recording holds.
type group struct {
	// dirs is a pattern of path.Match below /sys. Where an entry is a link, as
	// in class and bus, the link and the directory it leads to are recorded.
	dirs string
	// except leaves out directories below this one.
	except string
	files  []string
	// private files identify a machine or its owner: addresses, GUIDs, texts that
	// people wrote.
	private []string
	// binary files are recorded up to configBytes.
	binary []string
	// links inside the directory, such as driver, or patterns of their names.
	links []string
}

var topologyFiles = []string{
	"topology/physical_package_id", "topology/die_id", "topology/cluster_id", "topology/core_id",
	"topology/core_cpus", "topology/core_cpus_list", "topology/thread_siblings", "topology/thread_siblings_list",
	"topology/package_cpus", "topology/package_cpus_list", "topology/core_siblings", "topology/core_siblings_list",
	"topology/die_cpus", "topology/die_cpus_list", "topology/cluster_cpus", "topology/cluster_cpus_list",
}

// recorded is all that a recording contains: what inventory reads, and the bitmaps that
// hwloc reads besides. Virtual interfaces are left out: their names are of pods, not of
// the machine.
var recorded = []group{
	{dirs: "devices/system/cpu", files: []string{"online", "possible", "present"}},
	{dirs: "devices/system/cpu/cpu[0-9]*", files: append([]string{"online", "cpu_capacity"}, topologyFiles...)},
	{dirs: "devices/cpu_core", files: []string{"cpus"}},
	{dirs: "devices/cpu_atom", files: []string{"cpus"}},
	{dirs: "devices/system/cpu/cpu[0-9]*/cache/index[0-9]*", files: []string{
		"id", "level", "type", "size", "coherency_line_size", "shared_cpu_map", "shared_cpu_list",
	}},
	{dirs: "devices/system/node", files: []string{"online", "possible", "has_cpu", "has_memory"}},
	{dirs: "devices/system/node/node[0-9]*", files: []string{"cpumap", "cpulist", "distance", memoryFile}},
	{dirs: "devices/system/node/node[0-9]*/hugepages/hugepages-*", files: []string{"nr_hugepages"}},
	{dirs: "bus/pci/devices/*", files: []string{
		"class", "vendor", "device", "subsystem_vendor", "subsystem_device", "revision",
		"numa_node", "local_cpus", "local_cpulist",
		"current_link_speed", "current_link_width", "max_link_speed", "max_link_width",
		"sriov_totalvfs", "sriov_numvfs",
	}, binary: []string{"config"}, links: []string{"driver", "physfn", "virtfn[0-9]*"}},
	{dirs: "class/net/*", except: "devices/virtual",
		files:   []string{"ifindex", "type", "mtu", "operstate", "speed", "dev_port", "dev_id", "phys_port_name"},
		private: []string{"address", "ifalias"}, links: []string{"device"}},
	{dirs: "class/infiniband/*", files: []string{
		"node_type", "parent", "ports/1/link_layer", "ports/1/state", "ports/1/gid_attrs/ndevs/0",
	}, private: []string{"node_guid", "sys_image_guid"}, links: []string{"device"}},
	{dirs: "class/infiniband_verbs/uverbs*", files: []string{"ibdev", "dev"}, links: []string{"device"}},
	{dirs: "class/infiniband_mad/*", files: []string{"ibdev", "dev"}, links: []string{"device"}},
	{dirs: "class/misc/rdma_cm", files: []string{"dev"}},
	{dirs: "class/drm/card*", files: []string{"dev"}, links: []string{"device"}},
	{dirs: "class/drm/renderD*", files: []string{"dev"}, links: []string{"device"}},
}

// configBytes is the configuration space without the extended one.
const configBytes = 256

// memoryFile is recorded as its total only: the rest changes all the time.
const memoryFile = "meminfo"
