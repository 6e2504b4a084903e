// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimcheck

import (
	"bufio"
	"fmt"
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
	// NodeCPUs are the CPUs of each NUMA node.
	NodeCPUs map[int]cpuset.CPUSet
}

// Device is a device that was found and where it sits.
type Device struct {
	// Name is what the pod calls it: an interface or a device file.
	Name string
	// DeviceNumber is a device file's major:minor; empty for an interface.
	DeviceNumber string
	Address      model.PCIAddress
	Root         string
	NUMANode     int
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
	case what == "gpu" && len(fields) == 4:
		var l Device
		l, err = parseDevice(fields[0], fields[2], fields[3])
		l.DeviceNumber = fields[1]
		f.GPUs = append(f.GPUs, l)
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
