// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/machine/facts"
)

// memoryPerSocket is assumed where the facts have no memory: 1 TiB a socket, in KiB.
const memoryPerSocket = 1 << 30

// SLIT distances: as Linux shows them on two-socket servers, and for a memory
// without CPUs further away than any CPU's.
const (
	distanceSelf       = 10
	distanceSameSocket = 12
	distanceSocket     = 21
	distanceMemory     = 80
	distanceFarMemory  = 120
)

const nodeDir = "devices/system/node"

// renderNodes adds /sys/devices/system/node.
func (r *renderer) renderNodes() {
	var ids, withCPUs, withMemory []int
	for _, n := range r.nodes {
		ids = append(ids, n.ID)
		if !n.MemoryOnly {
			withCPUs = append(withCPUs, n.ID)
		}
		if r.memoryKiB(n) > 0 {
			withMemory = append(withMemory, n.ID)
		}
		r.renderNode(n)
	}
	for file, list := range map[string][]int{
		"online": ids, "possible": ids, "has_cpu": withCPUs, "has_memory": withMemory, "has_normal_memory": withMemory,
	} {
		r.file(path.Join(nodeDir, file), cpuset.New(list...).String())
	}
}

func (r *renderer) renderNode(n facts.Node) {
	dir := path.Join(nodeDir, "node"+strconv.Itoa(n.ID))
	r.both(dir+"/cpumap", dir+"/cpulist", r.text(n.CPUs))
	distances := make([]string, len(r.nodes))
	for i, other := range r.nodes {
		distances[i] = strconv.Itoa(distance(n, other))
	}
	r.file(dir+"/distance", strings.Join(distances, " "))
	kib := r.memoryKiB(n)
	r.raw(dir+"/meminfo", fmt.Sprintf("Node %d MemTotal:       %d kB\nNode %d MemFree:        %d kB\n", n.ID, kib, n.ID, kib))
	for _, id := range n.CPUs.List() {
		cpu := "cpu" + strconv.Itoa(id)
		r.link(path.Join(dir, cpu), path.Join(cpuDir, cpu))
	}
}

// memoryKiB is an equal share of the total for each node with CPUs. A node without CPUs
// has the memory of the GPU it belongs to, if any: on Grace most have no memory until a
// GPU is partitioned (MIG).
func (r *renderer) memoryKiB(n facts.Node) int {
	if !n.MemoryOnly {
		withCPUs := 0
		for _, other := range r.nodes {
			if !other.MemoryOnly {
				withCPUs++
			}
		}
		return memoryPerSocket * ptr.Deref(r.facts.CPU.Sockets, 1) / withCPUs
	}
	for i := range r.facts.GPUs {
		g := &r.facts.GPUs[i]
		if len(g.MemoryNodes) > 0 && g.MemoryNodes[0] == n.ID && g.MemoryMiB != nil {
			return int(*g.MemoryMiB) * 1024
		}
	}
	return 0
}

func distance(a, b facts.Node) int {
	near := a.Socket == b.Socket
	switch {
	case a.ID == b.ID:
		return distanceSelf
	case (a.MemoryOnly || b.MemoryOnly) && near:
		return distanceMemory
	case a.MemoryOnly || b.MemoryOnly:
		return distanceFarMemory
	case near:
		return distanceSameSocket
	}
	return distanceSocket
}
