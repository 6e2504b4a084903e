// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// twoSockets is a machine of two packages with two cores of two threads and
// one L3 each; CPU 7 is offline.
func twoSockets() string {
	var b strings.Builder
	fmt.Fprintln(&b, "devices/system/cpu/present = 0-7\ndevices/system/cpu/online = 0-6")
	for cpu := range 7 {
		pkg, core := cpu%4/2, cpu%2
		dir := fmt.Sprintf("devices/system/cpu/cpu%d", cpu)
		threads := fmt.Sprintf("%d,%d", cpu%4, cpu%4+4)
		inPackage := map[int]string{0: "0-1,4-5", 1: "2-3,6"}[pkg]
		if cpu%4 == 3 {
			threads = "3"
		}
		fmt.Fprintf(&b, "%s/topology/physical_package_id = %d\n%s/topology/package_cpus_list = %s\n", dir, pkg, dir, inPackage)
		fmt.Fprintf(&b, "%s/topology/core_id = %d\n%s/topology/core_cpus_list = %s\n", dir, core, dir, threads)
		fmt.Fprintf(&b, "%s/topology/cluster_id = %d\n", dir, 65535)
		fmt.Fprintf(&b, "%s/cache/index3/level = 3\n%s/cache/index3/id = %d\n%s/cache/index3/shared_cpu_list = %s\n", dir, dir, pkg, dir, inPackage)
	}
	return b.String()
}

func twoSocketsCPUs() []CPU {
	var cpus []CPU
	for id := range 7 {
		c := CPU{ID: id, Online: true, Package: new(id % 4 / 2), Core: new(id % 2), L3: new(id % 4 / 2), Siblings: cpuset.New(id%4, id%4+4)}
		if id%4 == 3 {
			c.Siblings = cpuset.New(3)
		}
		cpus = append(cpus, c)
	}
	return append(cpus, CPU{ID: 7, Siblings: cpuset.New()})
}

func capacities(even, odd string) string {
	var b strings.Builder
	for cpu := range 7 {
		fmt.Fprintf(&b, "devices/system/cpu/cpu%d/cpu_capacity = %s\n", cpu, []string{even, odd}[cpu%2])
	}
	return b.String()
}

func TestReadCPUs(t *testing.T) {
	whole := twoSockets()
	for _, tt := range []struct {
		name, tree, problems string
		change               func([]CPU)
	}{
		{name: "as it is", tree: whole},
		{
			name: "no lists, every CPU read alone",
			tree: strings.NewReplacer("package_cpus_list", "x", "shared_cpu_list", "y").Replace(whole),
		},
		{name: "names of before Linux 5.3", tree: strings.NewReplacer("package_cpus_list", "core_siblings_list", "core_cpus_list", "thread_siblings_list").Replace(whole)},
		{
			name: "a hybrid machine", tree: whole + "devices/cpu_core/cpus = 0-1,4-5\ndevices/cpu_atom/cpus = 2-3,6,9\n",
			change: func(cpus []CPU) {
				for i := range 7 {
					cpus[i].Kind = []string{"cpu_core", "cpu_core", "cpu_atom", "cpu_atom"}[i%4]
				}
			},
		},
		{
			name: "a machine with little cores", tree: whole + capacities("512", "1024"),
			change: func(cpus []CPU) {
				for i := range 7 {
					cpus[i].Capacity = new([]int{512, 1024}[i%2])
				}
			},
		},
		{name: "L3 at another index", tree: strings.ReplaceAll(whole, "index3", "index2")},
		{
			name:     "a list without the CPU itself",
			tree:     strings.Replace(whole, "cpu3/topology/core_cpus_list = 3", "cpu3/topology/core_cpus_list = 2", 1),
			problems: "devices/system/cpu/cpu3/topology/core_cpus_list: does not list the CPU itself",
		},
		{
			name:     "a list with an offline CPU",
			tree:     strings.Replace(whole, "cpu3/topology/core_cpus_list = 3", "cpu3/topology/core_cpus_list = 3,7", 1),
			problems: "devices/system/cpu/cpu3/topology/core_cpus_list: lists CPU 7, which is not online",
		},
		{
			name:     "a list that takes from another core",
			tree:     strings.Replace(whole, "cpu3/topology/core_cpus_list = 3", "cpu3/topology/core_cpus_list = 2-3", 1),
			problems: "devices/system/cpu/cpu3/topology/core_cpus_list: lists CPU 2, which the list of a lower CPU names without CPU 3",
		},
		{
			name: "a package id of -1",
			tree: strings.Replace(whole, "cpu2/topology/physical_package_id = 1", "cpu2/topology/physical_package_id = -1", 1),
			change: func(cpus []CPU) {
				for _, id := range []int{2, 3, 6} {
					cpus[id].Package = nil
				}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := twoSocketsCPUs()
			if tt.change != nil {
				tt.change(want)
			}
			got, problems := ReadCPUs(hosttest.Tree(t, tt.tree))
			check(t, got, problems, want, tt.problems)
		})
	}
}

func TestReadCPUsWithoutAnything(t *testing.T) {
	got, problems := ReadCPUs(hosttest.Tree(t, `
		devices/system/cpu/cpu0/uevent =
		devices/system/cpu/cpu1/uevent =
		devices/system/cpu/cpufreq/x =
	`))
	check(t, got, problems, []CPU{{ID: 0, Online: true, Siblings: cpuset.New(0)}, {ID: 1, Online: true, Siblings: cpuset.New(1)}}, "")
}
