// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"fmt"
	"io/fs"
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
