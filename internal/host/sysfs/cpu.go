// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"k8s.io/utils/cpuset"
)

// CPU is one logical CPU (/sys/devices/system/cpu/cpu*). An offline CPU has
// its ID and nothing else: the kernel removes the rest.
type CPU struct {
	ID     int
	Online bool
	// Package, Die, Cluster and Core are topology/physical_package_id, die_id,
	// cluster_id and core_id. Core repeats in every package.
	Package, Die, Cluster, Core *int
	// Siblings are the threads of the core (topology/core_cpus_list), this CPU
	// included; this CPU alone when the kernel does not say, empty when offline.
	Siblings cpuset.CPUSet
	// L3 is cache/index*/id of the cache of level 3.
	L3 *int
	// Kind says on which list of a hybrid x86 machine the CPU is: cpu_core or
	// cpu_atom (/sys/devices/cpu_core/cpus); empty on others.
	Kind string
	// Capacity is cpu_capacity, how much the CPU does compared with the machine's
	// fastest, which has 1024; Arm and RISC-V have it.
	Capacity *int
}

const cpuDir = "devices/system/cpu"

// ReadCPUs reads all present CPUs, by id. What CPUs share is read once, such as a
// package id from the first CPU of the package. On a machine with 224 CPUs that is a
// sixth of the files.
func ReadCPUs(sys fs.FS) ([]CPU, []Problem) {
	c := cpuReader{reader: newReader(sys), index: map[int]int{}}
	for _, id := range c.present() {
		c.index[id] = len(c.cpus)
		c.cpus = append(c.cpus, CPU{ID: id, Online: true, Siblings: cpuset.New()})
	}
	if online := parsed(c.reader, cpuDir+"/online", parseCPUList); online != nil {
		for i := range c.cpus {
			c.cpus[i].Online = online.Contains(c.cpus[i].ID)
		}
	}
	c.shared([]string{"topology/package_cpus_list", "topology/core_siblings_list"}, "topology/physical_package_id", parseID,
		func(cpu *CPU, v int) { cpu.Package = &v })
	c.shared([]string{"topology/die_cpus_list"}, "topology/die_id", parseID,
		func(cpu *CPU, v int) { cpu.Die = &v })
	c.cores()
	c.caches()
	c.kinds()
	c.capacities()
	return c.cpus, c.problems
}

type cpuReader struct {
	*reader
	cpus  []CPU
	index map[int]int // by CPU id
}

// present are the ids of the present CPUs, ascending: the file present, or the
// directories where it is missing.
func (c *cpuReader) present() []int {
	if present := parsed(c.reader, cpuDir+"/present", parseCPUList); present != nil {
		return present.List()
	}
	return c.numbered(cpuDir, "cpu")
}

func (c *cpuReader) path(cpu *CPU, file string) string {
	return cpuDir + "/cpu" + strconv.Itoa(cpu.ID) + "/" + file
}

// shared reads a value from the first CPU of each group and gives it to the
// whole group. lists are the names of the file with the group, newest first.
func (c *cpuReader) shared(lists []string, value string, parse func(string) (int, error), set func(*CPU, int)) {
	done := make([]bool, len(c.cpus))
	for i := range c.cpus {
		cpu := &c.cpus[i]
		if done[i] || !cpu.Online {
			continue
		}
		v := parsed(c.reader, c.path(cpu, value), parse)
		for _, member := range c.group(cpu, lists, done) {
			done[member] = true
			if v != nil {
				set(&c.cpus[member], *v)
			}
		}
	}
}

// group returns the indexes of the CPUs that a list file of a CPU names. A list that
// contradicts another one is ignored: then the group is the CPU alone.
func (c *cpuReader) group(cpu *CPU, lists []string, done []bool) []int {
	alone := []int{c.index[cpu.ID]}
	for _, list := range lists {
		name := c.path(cpu, list)
		set := parsed(c.reader, name, parseCPUList)
		if set == nil {
			continue
		}
		members, err := c.members(cpu.ID, *set, done)
		if err != nil {
			c.problem(name, err)
			return alone
		}
		return members
	}
	return alone
}

func (c *cpuReader) members(self int, set cpuset.CPUSet, done []bool) ([]int, error) {
	if !set.Contains(self) {
		return nil, errors.New("does not list the CPU itself")
	}
	members := make([]int, 0, set.Size())
	for _, id := range set.List() {
		at, known := c.index[id]
		switch {
		case !known || !c.cpus[at].Online:
			return nil, fmt.Errorf("lists CPU %d, which is not online", id)
		case done[at]:
			return nil, fmt.Errorf("lists CPU %d, which the list of a lower CPU names without CPU %d", id, self)
		}
		members = append(members, at)
	}
	return members, nil
}

// cores reads what the threads of a core share.
func (c *cpuReader) cores() {
	done := make([]bool, len(c.cpus))
	for i := range c.cpus {
		cpu := &c.cpus[i]
		if done[i] || !cpu.Online {
			continue
		}
		core := parsed(c.reader, c.path(cpu, "topology/core_id"), parseID)
		cluster := parsed(c.reader, c.path(cpu, "topology/cluster_id"), parseClusterID)
		threads := c.group(cpu, []string{"topology/core_cpus_list", "topology/thread_siblings_list"}, done)
		ids := make([]int, len(threads))
		for k, member := range threads {
			ids[k] = c.cpus[member].ID
		}
		siblings := cpuset.New(ids...)
		for _, member := range threads {
			done[member] = true
			c.cpus[member].Core, c.cpus[member].Cluster, c.cpus[member].Siblings = core, cluster, siblings
		}
	}
}

// kinds reads which CPUs are of which kind where the kernel has a performance
// monitor for each (arch/x86/events/intel/core.c, x86_hybrid_pmus).
func (c *cpuReader) kinds() {
	for _, kind := range []string{"cpu_core", "cpu_atom"} {
		set := parsed(c.reader, "devices/"+kind+"/cpus", parseCPUList)
		if set == nil {
			continue
		}
		for _, id := range set.List() {
			if at, known := c.index[id]; known {
				c.cpus[at].Kind = kind
			}
		}
	}
}

// capacities reads cpu_capacity of every CPU, where the first one has it
// (drivers/base/arch_topology.c).
func (c *cpuReader) capacities() {
	for i := range c.cpus {
		cpu := &c.cpus[i]
		if !cpu.Online {
			continue
		}
		if cpu.Capacity = parsed(c.reader, c.path(cpu, "cpu_capacity"), parseCount); cpu.Capacity == nil {
			return
		}
	}
}

// caches reads the id of each L3 once and gives it to all CPUs below it.
// Usually that is cache/index3, but the kernel numbers what it finds: without
// split level-1 caches it is index2.
func (c *cpuReader) caches() {
	done := make([]bool, len(c.cpus))
	for i := range c.cpus {
		cpu := &c.cpus[i]
		if done[i] || !cpu.Online {
			continue
		}
		dir := c.levelThree(cpu)
		if dir == "" {
			for _, member := range c.siblings(cpu) {
				done[member] = true
			}
			continue
		}
		id := parsed(c.reader, c.path(cpu, dir+"/id"), parseCount)
		for _, member := range c.group(cpu, []string{dir + "/shared_cpu_list"}, done) {
			done[member] = true
			c.cpus[member].L3 = id
		}
	}
}

// levelThree returns the directory of the CPU's L3, such as "cache/index3";
// empty when it has none.
func (c *cpuReader) levelThree(cpu *CPU) string {
	for _, n := range []int{3, 2, 4} {
		dir := "cache/index" + strconv.Itoa(n)
		if level := parsed(c.reader, c.path(cpu, dir+"/level"), parseCount); level != nil && *level == 3 {
			return dir
		}
	}
	return ""
}

func (c *cpuReader) siblings(cpu *CPU) []int {
	var at []int
	for _, id := range cpu.Siblings.UnsortedList() {
		at = append(at, c.index[id])
	}
	return at
}
