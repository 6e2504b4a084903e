// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/evaluate"
)

// The report's version and kind.
const (
	APIVersion = "plumbline.dev/v1alpha1"
	Kind       = "Verification"
)

// Report is what became of the pods of a node. Fields are only ever added.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Node       string    `json:"node"`
	Time       time.Time `json:"time"`
	Pods       []Pod     `json:"pods"`
}

// Pod is one pod's part of a Report.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Node is the pod's; in a report of several nodes they differ.
	Node string `json:"node"`
	// Verdict sums up both answers below: Aligned, AsClaimed (and could be nearer,
	// or it is not known), Misaligned (not as claimed) or Unknown. Reason and
	// Message are those of AsClaimed.
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// AsClaimed says whether the pod is as its claims say; Differs what is not.
	AsClaimed Answer       `json:"asClaimed"`
	Differs   []Difference `json:"differs,omitempty"`
	// Aligned says whether every pair of claimed components is as near as the machine
	// could have given it, claimed so or not.
	Aligned Answer `json:"aligned"`
	// Components are its devices and its containers' CPUs, with their places.
	Components []Component `json:"things"`
	// Pairs classify every two of them as nvidia-smi topo -m does, and say of
	// claimed ones that belong together how near they could be.
	Pairs []Pair `json:"pairs"`
	// Findings are all that was looked at.
	Findings []Finding `json:"findings"`
}

// Answer is to one of the two questions, in the form of a condition.
type Answer struct {
	// Status is True, False or Unknown.
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Difference is what was claimed of one attribute and what was observed.
type Difference struct {
	Of        string `json:"of"`
	Attribute string `json:"attribute"`
	Claimed   string `json:"claimed"`
	Observed  string `json:"observed"`
}

// Component is a device of a pod, or where a container of it runs.
type Component struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Claim, Request and Device are empty for what no claim of the pod has.
	Claim   string `json:"claim,omitempty"`
	Request string `json:"request,omitempty"`
	Device  string `json:"device,omitempty"`
	// Resource is the extended resource that a GPU without a claim came by.
	Resource   string `json:"resource,omitempty"`
	PCIAddress string `json:"pciAddress,omitempty"`
	PCIeRoot   string `json:"pcieRoot,omitempty"`
	// NUMANodes is a list such as "0" or "0-1"; empty where the kernel does not
	// say.
	NUMANodes string `json:"numaNodes,omitempty"`
	// RDMA is the file of its RDMA device in the container.
	RDMA string `json:"rdma,omitempty"`
	// CPUs and MemoryNodes are what the container's control group grants.
	CPUs        string `json:"cpus,omitempty"`
	MemoryNodes string `json:"memoryNodes,omitempty"`
	// MemoryBytes is where the container's own memory lies, by NUMA node.
	MemoryBytes map[int]uint64 `json:"memoryBytes,omitempty"`
	Interrupts  *Interrupts    `json:"interrupts,omitempty"`
}

// Interrupts sum up those of a NIC.
type Interrupts struct {
	Count int `json:"count"`
	// CPUs handle them, of these NUMA nodes.
	CPUs      string `json:"cpus"`
	NUMANodes string `json:"numaNodes"`
}

// Pair is how near two components are, by their names.
type Pair struct {
	A     string `json:"a"`
	B     string `json:"b"`
	Class string `json:"class"`
	// Nearest is the nearest class that the machine could have given; absent
	// where that is not computed.
	Nearest string `json:"nearest,omitempty"`
}

// Finding is one thing that was looked at.
type Finding struct {
	// State is ok, WRONG, unknown or note.
	State string `json:"state"`
	Code  string `json:"code,omitempty"`
	Claim string `json:"claim,omitempty"`
	What  string `json:"what"`
	Why   string `json:"why"`
}

// NewReport puts results into their outer form, by namespace and name.
func NewReport(m *model.Machine, node string, at time.Time, results []Result) *Report {
	r := &Report{APIVersion: APIVersion, Kind: Kind, Node: node, Time: at.UTC().Truncate(time.Second), Pods: []Pod{}}
	for _, result := range results {
		r.Pods = append(r.Pods, podOf(m, node, result))
	}
	slices.SortFunc(r.Pods, ComparePods)
	return r
}

// ComparePods orders pods by namespace and name.
func ComparePods(a, b Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func podOf(m *model.Machine, node string, r Result) Pod {
	near := r.Nearness()
	p := Pod{
		Namespace: r.Expected.Namespace, Name: r.Expected.Name, UID: r.Expected.UID, Node: node,
		Verdict: string(r.Word()), Reason: string(r.Reason), Message: r.Message,
		AsClaimed:  Answer{string(r.Status), string(r.Reason), r.Message},
		Aligned:    Answer{string(near.Status), string(near.Reason), near.Message},
		Components: []Component{}, Pairs: []Pair{}, Findings: []Finding{},
	}
	for _, t := range r.Components {
		p.Components = append(p.Components, componentOf(m, r, t))
	}
	for _, pair := range r.Pairs {
		p.Pairs = append(p.Pairs, pairOf(pair))
	}
	for _, f := range r.Findings {
		if d := f.Differs; d != nil {
			p.Differs = append(p.Differs, Difference(*d))
		}
		p.Findings = append(p.Findings, Finding{State: string(f.State), Code: string(f.Code), Claim: f.Claim, What: f.What, Why: f.Why})
	}
	return p
}

func pairOf(p evaluate.Pair) Pair {
	out := Pair{A: p.A, B: p.B, Class: p.Class.String()}
	if p.Nearest != 0 {
		out.Nearest = p.Nearest.String()
	}
	return out
}

func componentOf(m *model.Machine, r Result, t evaluate.Component) Component {
	out := Component{
		Kind: string(t.Kind), Name: t.Name, Claim: t.Claim, Request: t.Request, Device: t.Device, Resource: t.Resource,
		PCIeRoot: t.Root, NUMANodes: t.Nodes.String(), RDMA: t.RDMA, CPUs: t.CPUs.String(), MemoryNodes: t.Mems.String(),
	}
	if t.PCI != nil {
		out.PCIAddress = t.PCI.String()
		out.Interrupts = interruptsOf(m, r.Interrupts[*t.PCI])
	}
	for _, c := range r.Observed.Containers {
		if t.Container != "" && c.Name == t.Container {
			out.MemoryBytes = maps.Clone(c.MemoryBytes)
		}
	}
	return out
}

func interruptsOf(m *model.Machine, list []collect.Interrupt) *Interrupts {
	if len(list) == 0 {
		return nil
	}
	cpus := cpuset.New()
	for _, i := range list {
		cpus = cpus.Union(i.CPUs)
	}
	var nodes []int
	for _, n := range m.NUMANodes {
		if !n.CPUs.Intersection(cpus).IsEmpty() {
			nodes = append(nodes, n.ID)
		}
	}
	return &Interrupts{Count: len(list), CPUs: cpus.String(), NUMANodes: cpuset.New(nodes...).String()}
}
