// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
)

// PodKind identifies the JSON form, of APIVersion.
const PodKind = "PodTopology"

// Pod is what a pod finds in itself: which interface has which RDMA device, at
// which PCI address, below which root, on which NUMA node, and how near that is to
// the CPUs it may run on. What a claim asked for is for package verify. Absent
// values are left out.
type Pod struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// CPUs and Memory are lists of the CPUs and memory nodes that the process
	// may use, CPUNodes of the NUMA nodes of those CPUs.
	CPUs     string      `json:"cpus,omitempty"`
	CPUNodes string      `json:"cpuNUMANodes,omitempty"`
	Memory   string      `json:"memoryNUMANodes,omitempty"`
	Devices  []PodDevice `json:"devices"`
	// Notes are what a reader must know to read the rest rightly.
	Notes []string `json:"notes,omitempty"`
}

// PodDevice is an interface, an RDMA device, or a GPU that the pod has.
type PodDevice struct {
	// Kind is as Device has it.
	Kind      string `json:"kind"`
	Interface string `json:"interface,omitempty"`
	RDMA      string `json:"rdma,omitempty"`
	// Files are the device files that are there.
	Files []string `json:"files,omitempty"`
	// Ports are those of the RDMA device.
	Ports []RDMAPort `json:"ports,omitempty"`
	// NoFiles is true of an RDMA device that the pod sees and cannot open.
	NoFiles     bool   `json:"noFiles,omitempty"`
	Address     string `json:"address,omitempty"`
	Root        string `json:"pcieRoot,omitempty"`
	NUMANode    *int   `json:"numaNode,omitempty"`
	NetworkMbps int    `json:"networkMbps,omitempty"`
	Virtual     bool   `json:"virtual,omitempty"`
	// ToCPUs is the class of the path to the CPUs, the farthest where they are
	// on several nodes.
	ToCPUs string `json:"toCPUs,omitempty"`
}

// RDMAPort is a port of an RDMA device.
type RDMAPort struct {
	Number int `json:"number"`
	// State is the port's, such as ACTIVE; empty when unknown.
	State string `json:"state,omitempty"`
	// Interface is the port's in this pod; empty where it has none here.
	Interface string `json:"interface,omitempty"`
	// LinkState is the interface's operstate, such as up; empty when unknown.
	LinkState string `json:"linkState,omitempty"`
}

// PodSelf is what a process reads of itself.
type PodSelf struct {
	Name string
	// CPUs and Mems are those it may use; nil when unknown.
	CPUs, Mems *cpuset.CPUSet
	// HasFile says whether a device file is there.
	HasFile func(path string) bool
	// RDMAPorts are the ports by RDMA device, with the interfaces that the kernel
	// names, whosever network namespace those are in.
	RDMAPorts map[string][]RDMAPort
	// GPUFiles are the device files of display functions, there or not.
	GPUFiles map[model.PCIAddress][]string
}

// BuildPod arranges what a scan inside the pod found.
func BuildPod(m *model.Machine, self PodSelf) *Pod {
	p := &Pod{APIVersion: APIVersion, Kind: PodKind, Name: self.Name, Devices: []PodDevice{}}
	b := podBuilder{m: m, self: self}
	if self.CPUs != nil {
		p.CPUs = self.CPUs.String()
		for _, n := range m.NUMANodes {
			if !n.CPUs.Intersection(*self.CPUs).IsEmpty() {
				b.nodes = append(b.nodes, n.ID)
			}
		}
		p.CPUNodes = cpuset.New(b.nodes...).String()
	}
	if self.Mems != nil {
		p.Memory = self.Mems.String()
	}
	elsewhere := 0
	for _, n := range m.NICs {
		d := b.nic(n)
		if n.Interface == nil && len(d.Files) == 0 {
			elsewhere++ // an RDMA device of the host or of another pod
			continue
		}
		p.Devices = append(p.Devices, d)
	}
	for i := range m.Functions {
		if d, has := b.gpu(&m.Functions[i]); has {
			p.Devices = append(p.Devices, d)
		}
	}
	if elsewhere > 0 {
		p.Notes = append(p.Notes, plural.Count(elsewhere, "RDMA device has", "RDMA devices have")+" neither an interface nor a device file here: other pods' or the host's")
	}
	return p
}

type podBuilder struct {
	m     *model.Machine
	self  PodSelf
	nodes []int
}

func (b *podBuilder) nic(n model.NIC) PodDevice {
	d := PodDevice{Kind: KindNIC, NUMANode: n.NUMANode}
	if n.Interface != nil {
		d.Interface, d.Virtual = n.Interface.Name, n.Interface.Virtual
		if n.Interface.SpeedMbps != nil {
			d.NetworkMbps = *n.Interface.SpeedMbps
		}
	}
	if n.RDMA != nil {
		d.RDMA = n.RDMA.Name
		d.Files = slices.DeleteFunc(b.there(n.RDMA.CharDevices), isOfAll)
		d.NoFiles = len(d.Files) == 0
		d.Ports = b.ports(n)
	}
	b.place(&d, n.PCI, affinity.OfNIC(n))
	return d
}

// ports are those of a NIC's RDMA device, each with its interface as far as it is
// this pod's: a name alone may be that of another pod's.
func (b *podBuilder) ports(n model.NIC) []RDMAPort {
	ports := slices.Clone(b.self.RDMAPorts[n.RDMA.Name])
	for i := range ports {
		p := &ports[i]
		of := b.ofPort(n, p.Interface)
		if of == nil && len(ports) == 1 {
			of = n.Interface
		}
		p.Interface = ""
		if of != nil {
			p.Interface, p.LinkState = of.Name, ptr.Deref(of.State, "")
		}
	}
	return ports
}

// ofPort finds an interface by its name among those of the NIC and of its PCI
// function, which may have several.
func (b *podBuilder) ofPort(n model.NIC, name string) *model.Interface {
	if n.Interface != nil && n.Interface.Name == name {
		return n.Interface
	}
	for _, other := range b.m.NICs {
		if other.Interface != nil && other.Interface.Name == name && n.PCI != nil && other.PCI != nil && *n.PCI == *other.PCI {
			return other.Interface
		}
	}
	return nil
}

// isOfAll says whether a file is of all RDMA devices alike
// (drivers/infiniband/core/ucma.c): it tells nothing of one.
func isOfAll(file string) bool { return path.Base(file) == "rdma_cm" }

// gpu is a display or accelerator function of which the pod has a device file.
func (b *podBuilder) gpu(f *model.PCIFunction) (PodDevice, bool) {
	d := PodDevice{Kind: KindGPU, NUMANode: f.NUMANode, Files: b.there(b.self.GPUFiles[f.Address])}
	b.place(&d, &f.Address, affinity.Place{PCI: &f.Address})
	return d, len(d.Files) > 0
}

func (b *podBuilder) there(files []string) []string {
	return slices.DeleteFunc(slices.Clone(files), func(f string) bool { return !b.self.HasFile(f) })
}

func (b *podBuilder) place(d *PodDevice, address *model.PCIAddress, at affinity.Place) {
	if address != nil {
		d.Address = address.String()
		if f := b.m.Function(*address); f != nil {
			d.Root = f.Root
		}
	}
	if d.Virtual || len(b.nodes) == 0 {
		return
	}
	farthest := affinity.Self
	for _, node := range b.nodes {
		farthest = max(farthest, affinity.Between(b.m, at, affinity.OfNode(node)))
	}
	d.ToCPUs = farthest.String()
}

// PodText writes a line for each device.
func PodText(w io.Writer, p *Pod) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, printable.Text(p.Name))
	if p.CPUs != "" {
		fmt.Fprintln(out, Joined(" · ", "CPUs "+p.CPUs+" of NUMA node "+p.CPUNodes, prefixed("memory of NUMA node ", p.Memory)))
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	head := "KIND\tINTERFACE\tRDMA\tPCI ADDRESS\tPCIE ROOT\tNUMA NODE\tSPEED\tFILES"
	if p.CPUs != "" {
		head += "\tTO CPUS"
	}
	fmt.Fprintln(table, head)
	for _, d := range p.Devices {
		node := "-"
		if d.NUMANode != nil {
			node = strconv.Itoa(*d.NUMANode)
		}
		files := strings.Join(d.Files, ",")
		if d.NoFiles {
			files = "none in this container"
		}
		kind := KindLabel(d.Kind)
		if d.Virtual {
			kind = "virtual"
		}
		row := []string{kind, dash(d.Interface), dash(d.RDMA), dash(d.Address), dash(d.Root), node, dash(NetworkSpeed(d.NetworkMbps)), dash(files)}
		if p.CPUs != "" {
			row = append(row, dash(d.ToCPUs))
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	table.Flush() //nolint:errcheck // out keeps the error until its own Flush
	writePorts(out, p)
	if p.CPUs != "" {
		fmt.Fprintln(out, "\nTO CPUS: NODE is the NUMA node of all CPUs, SYS is across the link between NUMA nodes for some")
	}
	for _, n := range p.Notes {
		fmt.Fprintln(out, "· "+printable.Text(n))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write pod: %w", err)
	}
	return nil
}

// writePorts writes a line for each port of an RDMA device, as ibdev2netdev does.
func writePorts(out io.Writer, p *Pod) {
	var lines []string
	for _, d := range p.Devices {
		for _, port := range d.Ports {
			lines = append(lines, printable.Text(fmt.Sprintf("%s port %d ==> %s", d.RDMA, port.Number, portText(port))))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintln(out, "\n"+strings.Join(lines, "\n"))
	}
}

// portText is the interface with the state of its link. A port that is not active
// says so; ibdev2netdev does not ask.
func portText(p RDMAPort) string {
	text := "no interface"
	if p.Interface != "" {
		text = p.Interface
		switch p.LinkState {
		case "":
		case "up":
			text += " (Up)"
		default:
			text += " (Down)"
		}
	}
	if p.State != "" && (p.State != "ACTIVE" || p.Interface == "") {
		text += ", port " + p.State
	}
	return text
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return printable.Text(s)
}
