// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// numaBalancing wants the kernel not to move pages away from the devices that use them.
func numaBalancing(h Host, r *report) {
	if len(h.Machine.NUMANodes) < 2 {
		return
	}
	const file = "proc/sys/kernel/numa_balancing"
	value, err := h.read(file)
	switch {
	case err != nil:
		r.unknown("", "/"+file, err)
	case value == "0":
		r.ok("", "/"+file, value)
	default:
		r.wrong("", "/"+file, value, "0", "sysctl -w kernel.numa_balancing=0, and in /etc/sysctl.d")
	}
}

// hugePages wants huge pages on each NUMA node that has GPUs or NICs, where any node has
// some: programs take those beside their device.
func hugePages(h Host, r *report) {
	pages, file, err := h.hugePages()
	if err != nil {
		r.unknown("", "/"+file, err)
		return
	}
	beside := map[int]bool{}
	for _, f := range h.carriers() {
		if f.NUMANode != nil {
			beside[*f.NUMANode] = true
		}
	}
	for _, size := range slices.Sorted(maps.Keys(pages)) {
		on := pages[size]
		if inNodes(on) == noPages {
			continue
		}
		for _, node := range slices.Sorted(maps.Keys(beside)) {
			subject, source := fmt.Sprintf("NUMA node %d", node), "/"+path.Join(pagesOf(node), size, "nr_hugepages")
			found := fmt.Sprintf("%s %d", size, on[node])
			if on[node] == 0 {
				r.wrong(subject, source, found+", of all: "+inNodes(on), "pages on each node that has GPUs or NICs", pagesFix)
				continue
			}
			r.ok(subject, source, found)
		}
	}
}

const pagesFix = "kernel parameters hugepagesz=SIZE hugepages=NODE:PAGES,NODE:PAGES; or write the number of pages into the node's nr_hugepages"

// pagesOf is the folder of a NUMA node's huge pages.
func pagesOf(node int) string { return fmt.Sprintf("sys/devices/system/node/node%d/hugepages", node) }

// hugePages are how many there are by the kernel's name of the size and by NUMA node. An
// error comes with the file that cannot be read.
func (h Host) hugePages() (pages map[string]map[int]int, file string, err error) {
	pages = map[string]map[int]int{}
	for _, node := range h.Machine.NUMANodes {
		dir := pagesOf(node.ID)
		sizes, err := fs.ReadDir(h.Files, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without any
		}
		if err != nil {
			return nil, dir, err
		}
		for _, size := range sizes {
			file := path.Join(dir, size.Name(), "nr_hugepages")
			n, err := h.number(file)
			if err != nil {
				return nil, file, err
			}
			if pages[size.Name()] == nil {
				pages[size.Name()] = map[int]int{}
			}
			pages[size.Name()][node.ID] = n
		}
	}
	return pages, "", nil
}

const noPages = "none"

// inNodes says how many pages which nodes have: "node0 512, node1 512".
func inNodes(on map[int]int) string {
	var words []string
	for _, node := range slices.Sorted(maps.Keys(on)) {
		if on[node] > 0 {
			words = append(words, fmt.Sprintf("node%d %d", node, on[node]))
		}
	}
	if len(words) == 0 {
		return noPages
	}
	return strings.Join(words, ", ")
}
