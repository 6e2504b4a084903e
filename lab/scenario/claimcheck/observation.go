// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimcheck

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// Observation is where a pod's devices, CPUs and memory really are, as one probe
// read it.
type Observation struct {
	CPUs, Mems cpuset.CPUSet
	NICs       []Device
	GPUs       []Device
	// Unplaced are files of NVIDIA's of which the probe does not see the GPU: a container has
	// a /proc of its own.
	Unplaced []File
	// NodeCPUs are the CPUs of each NUMA node.
	NodeCPUs map[int]cpuset.CPUSet
}

// Device is a device that was found and where it sits.
type Device struct {
	// Name is what the pod calls it: an interface, or the first file of the device.
	Name string
	// Files are all files of the device; none of an interface.
	Files    []File
	Address  model.PCIAddress
	Root     string
	NUMANode int
}

// File is a device's file in a pod.
type File struct {
	Path string
	// Number is its major:minor.
	Number string
}

// names are those of all files, or the interface's.
func (d Device) names() string {
	if len(d.Files) == 0 {
		return d.Name
	}
	var paths []string
	for _, f := range d.Files {
		paths = append(paths, f.Path)
	}
	return strings.Join(paths, " ")
}

// addGPU adds a file of a GPU to those of the same address.
func (f *Observation) addGPU(d Device) {
	i := slices.IndexFunc(f.GPUs, func(known Device) bool { return known.Address == d.Address })
	if i < 0 {
		f.GPUs = append(f.GPUs, d)
		return
	}
	f.GPUs[i].Files = append(slices.Clone(f.GPUs[i].Files), d.Files...)
}

// PlacedBy is the observation with those files placed that the other one, of the same
// container, has placed, by their numbers.
func (f Observation) PlacedBy(other Observation) Observation {
	placed := f
	placed.GPUs, placed.Unplaced = slices.Clone(f.GPUs), nil
	for _, file := range f.Unplaced {
		i := slices.IndexFunc(other.GPUs, func(d Device) bool {
			return slices.ContainsFunc(d.Files, func(known File) bool { return known.Number == file.Number })
		})
		if i < 0 {
			placed.Unplaced = append(placed.Unplaced, file)
			continue
		}
		d := other.GPUs[i]
		d.Name, d.Files = file.Path, []File{file}
		placed.addGPU(d)
	}
	return placed
}

// NUMANodes are the nodes the CPUs belong to.
func (f Observation) NUMANodes() cpuset.CPUSet {
	var nodes []int
	for node, cpus := range f.NodeCPUs {
		if !cpus.Intersection(f.CPUs).IsEmpty() {
			nodes = append(nodes, node)
		}
	}
	return cpuset.New(nodes...)
}

// ParseObservation reads what the probe scripts print: a word that says what the
// line is, then its fields.
func ParseObservation(text string) (Observation, error) {
	f := Observation{NodeCPUs: map[int]cpuset.CPUSet{}}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		if err := f.line(fields[0], fields[1:]); err != nil {
			return f, fmt.Errorf("read probe line %q: %w", lines.Text(), err)
		}
	}
	return f, lines.Err()
}

func (f *Observation) line(what string, fields []string) (err error) {
	switch {
	case what == "cpus" && len(fields) == 1:
		f.CPUs, err = cpuset.Parse(fields[0])
	case what == "mems" && len(fields) == 1:
		f.Mems, err = cpuset.Parse(fields[0])
	case what == "node" && len(fields) >= 1:
		var id int
		if id, err = strconv.Atoi(fields[0]); err != nil {
			return err
		}
		f.NodeCPUs[id], err = cpuset.Parse(strings.Join(fields[1:], ""))
	case what == "nic" && len(fields) == 3:
		var l Device
		l, err = parseDevice(fields[0], fields[1], fields[2])
		f.NICs = append(f.NICs, l)
	case what == "gpu" && len(fields) == 2:
		f.Unplaced = append(f.Unplaced, File{Path: fields[0], Number: fields[1]})
	case what == "gpu" && len(fields) == 4:
		var l Device
		if l, err = parseDevice(fields[0], fields[2], fields[3]); err == nil {
			l.Files = []File{{Path: fields[0], Number: fields[1]}}
			f.addGPU(l)
		}
	default:
		err = fmt.Errorf("unknown word or number of fields")
	}
	return err
}

// parseDevice reads a device's resolved sysfs path, such as
// /sys/devices/pci0000:8c/0000:8c:00.0/0000:8d:00.0/0000:8e:00.0/0000:8f:00.0.
func parseDevice(name, path, node string) (Device, error) {
	l := Device{Name: name}
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, "pci") && strings.Contains(part, ":") {
			l.Root = part
		}
		if a, err := model.ParsePCIAddress(part); err == nil {
			l.Address = a
		}
	}
	if l.Root == "" || l.Address == (model.PCIAddress{}) {
		return l, fmt.Errorf("path %s names no PCI root or address", path)
	}
	id, err := strconv.Atoi(node)
	if err != nil || id < 0 {
		return l, fmt.Errorf("NUMA node %q of %s: want a number of zero or more", node, path)
	}
	l.NUMANode = id
	return l, nil
}
