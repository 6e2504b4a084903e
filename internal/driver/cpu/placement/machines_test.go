// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"math/rand/v2"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver/cpu/placement"
	"plumbline.dev/plumbline/internal/model"
)

// shape is a machine in numbers. CPU ids run as on Linux: the first threads of
// all cores of all sockets, then the second ones, and so on; core ids begin
// anew in every package.
type shape struct {
	sockets, nodes   int // nodes per socket: sub-NUMA clusters
	cores            int // per node
	threads, perL3   int // perL3 cores share an L3; 0: none has one
	offline          []int
	efficiencyPerSix int // of six cores, how many are efficiency cores with one thread
}

func (s shape) String() string {
	return fmt.Sprintf("%d sockets, %d nodes each, %d cores each, %d threads, %d cores per L3, offline %v, %d/6 efficiency",
		s.sockets, s.nodes, s.cores, s.threads, s.perL3, s.offline, s.efficiencyPerSix)
}

// machine is the shape with its groups of CPUs, one per NUMA node.
type machine struct {
	topology *placement.Topology
	groups   []cpuset.CPUSet
	core     map[int]int // CPU to a number of its core
	threads  map[int]int // core to how many online CPUs it has
}

func (s shape) build() machine {
	m := machine{core: map[int]int{}, threads: map[int]int{}}
	total := s.sockets * s.nodes * s.cores
	offline := cpuset.New(s.offline...)
	groups := make([][]int, s.sockets*s.nodes)
	var cpus []model.CPU
	for thread := range s.threads {
		for core := range total {
			node := core / s.cores
			efficient := core%6 < s.efficiencyPerSix
			if efficient && thread > 0 {
				continue
			}
			id := thread*total + core
			inPackage := core % (s.nodes * s.cores)
			c := model.CPU{ID: id, Online: !offline.Contains(id), NUMANode: &node,
				Core: &model.CoreID{Package: node / s.nodes, Core: inPackage}}
			if s.perL3 > 0 {
				l3 := core / s.perL3
				c.L3 = &l3
			}
			if s.efficiencyPerSix > 0 {
				c.Type = model.PerformanceCore
				if efficient {
					c.Type = model.EfficiencyCore
				}
			}
			cpus = append(cpus, c)
			if c.Online {
				groups[node] = append(groups[node], id)
				m.core[id] = core
				m.threads[core]++
			}
		}
	}
	for _, g := range groups {
		m.groups = append(m.groups, cpuset.New(g...))
	}
	m.topology = placement.NewTopology(&model.Machine{CPUs: cpus})
	return m
}

// randomShape is any machine there may be.
func randomShape(r *rand.Rand) shape {
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	s := shape{
		sockets: pick(1, 1, 2, 2, 4), nodes: pick(1, 1, 2, 4), cores: 1 + r.IntN(24),
		threads: pick(1, 2, 2, 2, 4, 8), perL3: pick(0, 1, 2, 4, 8, 16, 64),
	}
	if r.IntN(5) == 0 {
		s.efficiencyPerSix = 1 + r.IntN(4)
	}
	if r.IntN(3) == 0 {
		all := s.sockets * s.nodes * s.cores * s.threads
		for range 1 + r.IntN(1+all/4) {
			s.offline = append(s.offline, r.IntN(all))
		}
	}
	return s
}
