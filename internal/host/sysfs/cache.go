// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import "strconv"

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
