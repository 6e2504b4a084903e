// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"path"
	"strconv"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/machine/facts"
)

const cpuDir = "devices/system/cpu"

// renderCPUs adds /sys/devices/system/cpu. Cores are numbered from 0 in each
// package, as firmware does: a core id alone names no core.
func (r *renderer) renderCPUs() {
	all := r.cpus(nil)
	for _, file := range []string{"online", "possible", "present"} {
		r.file(path.Join(cpuDir, file), all.list)
	}
	r.file(cpuDir+"/offline", "")
	nextCore := map[int]int{} // by socket
	cacheID := 0
	for rank, n := range r.nodes {
		shared := sharedSets{node: r.cpus(&n.ID), socket: r.union(func(other facts.Node) bool { return other.Socket == n.Socket })}
		for _, threads := range n.Cores {
			core := nextCore[n.Socket]
			nextCore[n.Socket]++
			shared.core = r.text(cpuset.New(threads...))
			for _, id := range threads {
				dir := path.Join(cpuDir, "cpu"+strconv.Itoa(id))
				r.link(dir+"/node"+strconv.Itoa(n.ID), path.Join(nodeDir, "node"+strconv.Itoa(n.ID)))
				if id != 0 {
					r.file(dir+"/online", "1") // x86 cannot take CPU 0 away
				}
				r.renderTopology(dir+"/topology", n.Socket, core, shared)
				r.renderCaches(dir+"/cache", cacheID, rank, shared)
			}
			cacheID++
		}
	}
}

// sharedSets are the sets that a CPU belongs to.
type sharedSets struct{ core, node, socket cpuSet }

// renderTopology adds cpuN/topology under the old and the new names
// (Documentation/admin-guide/cputopology.rst). Arm has no dies.
func (r *renderer) renderTopology(dir string, socket, core int, shared sharedSets) {
	r.number(dir+"/physical_package_id", socket)
	r.number(dir+"/core_id", core)
	r.both(dir+"/core_cpus", dir+"/core_cpus_list", shared.core)
	r.both(dir+"/thread_siblings", dir+"/thread_siblings_list", shared.core)
	r.both(dir+"/package_cpus", dir+"/package_cpus_list", shared.socket)
	r.both(dir+"/core_siblings", dir+"/core_siblings_list", shared.socket)
	if r.facts.Arch != "x86_64" {
		return
	}
	r.number(dir+"/die_id", 0)
	r.both(dir+"/die_cpus", dir+"/die_cpus_list", shared.socket)
	r.file(dir+"/cluster_id", "65535") // BAD_APICID: firmware names none
	r.both(dir+"/cluster_cpus", dir+"/cluster_cpus_list", shared.core)
}

// renderCaches adds cpuN/cache. Levels 1 and 2 belong to the core, level 3 to
// the NUMA node: that is the socket without sub-NUMA clustering and the
// cluster with it. Sizes are assumed: no facts file has any.
func (r *renderer) renderCaches(dir string, core, node int, shared sharedSets) {
	for i, c := range []struct {
		level, id  int
		kind, size string
		shared     cpuSet
	}{
		{1, core, "Data", "48K", shared.core},
		{1, core, "Instruction", "32K", shared.core},
		{2, core, "Unified", "2048K", shared.core},
		{3, node, "Unified", "107520K", shared.node},
	} {
		at := fmt.Sprintf("%s/index%d", dir, i)
		r.number(at+"/id", c.id)
		r.number(at+"/level", c.level)
		r.file(at+"/type", c.kind)
		r.file(at+"/size", c.size)
		r.number(at+"/coherency_line_size", 64)
		r.both(at+"/shared_cpu_map", at+"/shared_cpu_list", c.shared)
	}
}
