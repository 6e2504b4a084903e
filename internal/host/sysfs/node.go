// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// NUMANode is one memory node (/sys/devices/system/node/node*).
type NUMANode struct {
	ID   int
	CPUs cpuset.CPUSet // cpulist; empty on a node with memory only
	// MemoryBytes is MemTotal of meminfo.
	MemoryBytes *uint64
	// Distances are by node id (distance); nil when they do not fit the nodes.
	Distances map[int]int
	// Hugepages are the pools of nodeN/hugepages that have pages, the smallest
	// first.
	Hugepages []HugepagePool
}

// HugepagePool is how many huge pages of one size the node has, those in use
// included (hugepages-*kB/nr_hugepages).
type HugepagePool struct {
	PageBytes int64
	Pages     int64
}

const nodeDir = "devices/system/node"

// ReadNUMANodes reads all online nodes, by id.
func ReadNUMANodes(sys fs.FS) ([]NUMANode, []Problem) {
	r := newReader(sys)
	ids := r.nodeIDs()
	nodes := make([]NUMANode, 0, len(ids))
	for _, id := range ids {
		dir := nodeDir + "/node" + strconv.Itoa(id)
		n := NUMANode{ID: id, CPUs: cpuset.New(), MemoryBytes: parsed(r, dir+"/meminfo", parseMemTotal)}
		if cpus := parsed(r, dir+"/cpulist", parseCPUList); cpus != nil {
			n.CPUs = *cpus
		}
		n.Distances = r.distances(dir+"/distance", ids)
		n.Hugepages = r.hugepages(dir + "/hugepages")
		nodes = append(nodes, n)
	}
	return nodes, r.problems
}

// nodeIDs are the ids of the online nodes, ascending: the file online, or the
// directories where it is missing.
func (r *reader) nodeIDs() []int {
	if online := parsed(r, nodeDir+"/online", parseCPUList); online != nil {
		return online.List()
	}
	return r.numbered(nodeDir, "node")
}

// numbered lists the numbers n of the entries prefix<n> in a directory.
func (r *reader) numbered(dir, prefix string) []int {
	var found []int
	for _, e := range r.list(dir) {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		n, err := strconv.ParseUint(digits, 10, 16)
		if ok && err == nil {
			found = append(found, int(n))
		}
	}
	return cpuset.New(found...).List()
}

// hugepages reads the pools of a directory of hugepages-<size>kB
// (Documentation/admin-guide/mm/hugetlbpage.rst).
func (r *reader) hugepages(dir string) []HugepagePool {
	var pools []HugepagePool
	for _, e := range r.list(dir) {
		name := dir + "/" + e.Name()
		size, ok := strings.CutPrefix(e.Name(), "hugepages-")
		if !ok {
			continue
		}
		kb, err := strconv.ParseUint(strings.TrimSuffix(size, "kB"), 10, 40)
		if err != nil || kb == 0 {
			r.problem(name, fmt.Errorf("parse %q: want hugepages-<size>kB", shorten(e.Name())))
			continue
		}
		if pages := parsed(r, name+"/nr_hugepages", parseCount); pages != nil && *pages > 0 {
			pools = append(pools, HugepagePool{PageBytes: int64(kb) << 10, Pages: int64(*pages)})
		}
	}
	slices.SortFunc(pools, func(a, b HugepagePool) int { return cmp.Compare(a.PageBytes, b.PageBytes) })
	return pools
}

func (r *reader) distances(name string, ids []int) map[int]int {
	values := parsed(r, name, parseDistances)
	if values == nil {
		return nil
	}
	if len(*values) != len(ids) {
		r.problem(name, fmt.Errorf("lists %d distances for %d online nodes", len(*values), len(ids)))
		return nil
	}
	byID := make(map[int]int, len(ids))
	for i, id := range ids {
		byID[id] = (*values)[i]
	}
	return byID
}
