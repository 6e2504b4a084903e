// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"fmt"
	"math"
	"slices"
)

// Layout is how many CPUs and how much memory the virtual machine gets, and
// where they go.
type Layout struct {
	Sockets, CoresPerSocket, ThreadsPerCore int
	// Node is the index into Shape.Nodes of each logical CPU, in the order
	// QEMU numbers them: threads of a core, cores of a socket, sockets.
	Node []int
	// MemoryMiB is the memory of each node, in the order of Shape.Nodes.
	MemoryMiB []int
}

// CPUs returns the logical CPUs of the i-th node, ascending.
func (l Layout) CPUs(i int) []int {
	var cpus []int
	for cpu, node := range l.Node {
		if node == i {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// memoryOnlyMiB is the memory of a node without CPUs: enough for the kernel
// to bring it online.
const memoryOnlyMiB = 256

// sectionMiB is the kernel's unit of memory: less than one at the end of a node
// is lost (SECTION_SIZE_BITS in arch/x86/include/asm/sparsemem.h).
const sectionMiB = 128

// Scale fits the machine into about cpus logical CPUs and memoryMiB of
// memory. Every NUMA node that has CPUs keeps at least one core, and each
// socket has the same number of cores, as QEMU wants it.
func (s *Shape) Scale(cpus, memoryMiB int) (Layout, error) {
	threads := max(s.ThreadsPerCore, 1)
	perSocket := make([][]int, max(s.Sockets, 1)) // socket -> node indexes with CPUs
	var withCPUs int
	for i, n := range s.Nodes {
		if n.Socket < 0 || n.Socket >= len(perSocket) {
			return Layout{}, fmt.Errorf("scale %s: NUMA node %d is on socket %d, but there are %d sockets", s.Name, n.ID, n.Socket, len(perSocket))
		}
		if n.CPUs > 0 {
			perSocket[n.Socket] = append(perSocket[n.Socket], i)
			withCPUs++
		}
	}
	cores := max(cpus/threads/len(perSocket), 1)
	for socket, nodes := range perSocket {
		if len(nodes) == 0 {
			return Layout{}, fmt.Errorf("scale %s: socket %d has no NUMA node with CPUs", s.Name, socket)
		}
		cores = max(cores, len(nodes))
	}
	l := Layout{Sockets: len(perSocket), CoresPerSocket: cores, ThreadsPerCore: threads}
	for _, nodes := range perSocket {
		for i, n := range share(cores, s.weights(nodes)) {
			l.Node = append(l.Node, slices.Repeat([]int{nodes[i]}, n*threads)...)
		}
	}
	each := (memoryMiB - memoryOnlyMiB*(len(s.Nodes)-withCPUs)) / withCPUs
	each = max(each/sectionMiB, 2) * sectionMiB
	for _, n := range s.Nodes {
		l.MemoryMiB = append(l.MemoryMiB, pick(n.CPUs > 0, each, memoryOnlyMiB))
	}
	return l, nil
}

func pick(first bool, a, b int) int {
	if first {
		return a
	}
	return b
}

func (s *Shape) weights(nodes []int) []int {
	w := make([]int, len(nodes))
	for i, n := range nodes {
		w[i] = s.Nodes[n].CPUs
	}
	return w
}

// share divides total among the weights, at least one each, the rest by
// largest remainder.
func share(total int, weights []int) []int {
	var sum int
	for _, w := range weights {
		sum += w
	}
	out := make([]int, len(weights))
	left := total
	for i := range out {
		out[i] = 1
		left--
	}
	for ; left > 0; left-- {
		best, lack := 0, math.Inf(-1)
		for i, w := range weights {
			if d := float64(w)/float64(sum)*float64(total) - float64(out[i]); d > lack {
				best, lack = i, d
			}
		}
		out[best]++
	}
	return out
}

// Distance is the SLIT distance between two nodes. Machine files carry none:
// 10 within a node is ACPI's rule, 12 within a socket and 21 between sockets
// are what common two-socket machines report.
func (s *Shape) Distance(i, j int) int {
	switch {
	case i == j:
		return 10
	case s.Nodes[i].Socket == s.Nodes[j].Socket:
		return 12
	default:
		return 21
	}
}

// Deviations lists in words how the layout deviates from the real machine.
func (s *Shape) Deviations(l Layout) []string {
	var real, memory int
	for i, n := range s.Nodes {
		real += n.CPUs
		memory += l.MemoryMiB[i]
	}
	deviations := []string{fmt.Sprintf("CPUs scaled down from %d to %d (%d sockets, %d cores each, %d threads a core)",
		real, len(l.Node), l.Sockets, l.CoresPerSocket, l.ThreadsPerCore)}
	if real == 0 {
		deviations[0] = fmt.Sprintf("%d CPUs (the machine file gives no number)", len(l.Node))
	}
	deviations = append(deviations, fmt.Sprintf("memory is %.1f GiB over %d NUMA nodes, taken from the host as the guest touches it",
		float64(memory)/1024, len(s.Nodes)))
	if l.ThreadsPerCore > 1 {
		deviations = append(deviations, fmt.Sprintf("CPU numbers: threads of one core are neighbours (0,1), NUMA node %d has %s", s.Nodes[0].ID, spell(l.CPUs(0))))
	}
	if len(s.Nodes) > 1 {
		deviations = append(deviations, "NUMA distances are assumed: 10 within a node, 12 within a socket, 21 between sockets")
	}
	for i, n := range s.Nodes {
		if n.ID != i {
			deviations = append(deviations, fmt.Sprintf("NUMA node %d is number %d here: QEMU numbers them without gaps", n.ID, i))
		}
	}
	for _, d := range s.Devices {
		if d.NoInterface {
			deviations = append(deviations, fmt.Sprintf("%s is InfiniBand without a network interface; its stand-in is Ethernet and has one", d))
		}
	}
	return deviations
}

// spell writes ascending CPU numbers as the kernel's cpulist does.
func spell(cpus []int) string {
	var text string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		if text != "" {
			text += ","
		}
		if text += fmt.Sprint(cpus[i]); j > i {
			text += fmt.Sprintf("-%d", cpus[j])
		}
		i = j + 1
	}
	return text
}
