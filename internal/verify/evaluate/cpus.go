// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// grant is what a container should have of CPUs.
type grant struct {
	// claim is the first one's name, what all of them.
	claim string
	what  []string
	// count is how many CPUs, of which; sized is false where the number is not known.
	count int
	sized bool
	of    cpuset.CPUSet
	// inEnv is the union of the CPUs in the container's DRA_CPUSET_ variables;
	// notInEnv are claims that have no such variable.
	inEnv       cpuset.CPUSet
	notInEnv    []string
	bindsMemory bool
	devices     []claimed
}

// claimed is a device, and the name of its claim.
type claimed struct {
	claim  string
	device *expect.Device
}

// containers checks where each container runs that has CPUs of a claim.
func (e *evaluator) containers() {
	for i := range e.observed.Containers {
		found := &e.observed.Containers[i]
		p := e.expectedContainer(found.ID)
		if p == nil || found.Err != nil {
			continue
		}
		g := e.grantOf(p, found)
		if len(g.devices) == 0 {
			continue
		}
		if found.GrantedErr != nil {
			e.add(Finding{State: StateUnknown, Code: NotRead, Claim: g.claim, What: "CPUs of container " + found.Name, Why: found.GrantedErr.Error()})
			continue
		}
		for _, d := range g.devices {
			e.setPlace(d.claim, place{device: d.device, cpus: e.ofDevice(g, d.device, found.Granted.CPUs)})
		}
		e.add(e.cpusOf(g, found))
		e.add(e.memoryOf(g, found))
		e.add(e.processesOf(g, found))
		e.add(e.threadsOf(g, found))
	}
	e.unnamedCPUs()
}

func (e *evaluator) grantOf(p *expect.Container, found *collect.Container) grant {
	var g grant
	g.sized, g.bindsMemory = true, true
	for _, claim := range e.expected.Claims {
		before := len(g.devices)
		for i := range claim.Devices {
			d := &claim.Devices[i]
			if d.Kind != expect.CPUs || d.Admin || !p.Names(claim.Name, d.Request) {
				continue
			}
			if g.claim == "" {
				g.claim = claim.Name
			}
			g.devices = append(g.devices, claimed{claim.Name, d})
			g.what = append(g.what, fmt.Sprintf("%s: %s", d.Request, cpuWords(d)))
			g.count += d.CPUCount
			g.sized = g.sized && d.CPUCount > 0
			g.of = g.of.Union(e.group(d))
			g.bindsMemory = g.bindsMemory && d.BindsMemory
		}
		if len(g.devices) == before {
			continue
		}
		if inEnv, ok := found.EnvCPUs[claim.UID]; ok {
			g.inEnv = g.inEnv.Union(inEnv)
		} else {
			g.notInEnv = append(g.notInEnv, claim.Name)
		}
	}
	return g
}

func cpuWords(d *expect.Device) string {
	if d.CPUCount == 0 {
		return "CPUs of " + d.Name
	}
	return fmt.Sprintf("%s of %s", number(d.CPUCount, "CPU", "CPUs"), d.Name)
}

// number counts in words that agree.
func number(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// group are the CPUs a device stands for, as the kernel numbers them now.
func (e *evaluator) group(d *expect.Device) cpuset.CPUSet {
	switch {
	case d.CPU != nil:
		return cpuset.New(*d.CPU)
	case d.NUMANode != nil:
		if n := e.m.NUMANode(*d.NUMANode); n != nil {
			return n.CPUs
		}
		return cpuset.New()
	}
	var ids []int
	for _, cpu := range e.m.CPUs {
		if cpu.Online && (d.Socket == nil || cpu.Core != nil && cpu.Core.Package == *d.Socket) {
			ids = append(ids, cpu.ID)
		}
	}
	return cpuset.New(ids...)
}

// ofDevice are those of a container's CPUs that one of its devices gave it: of CPUs of two NUMA
// nodes by a device of each, those of its node. Where the container has others than its devices
// are of, they are all taken for each, and found wrong.
func (e *evaluator) ofDevice(g grant, d *expect.Device, has cpuset.CPUSet) cpuset.CPUSet {
	if own := has.Intersection(e.group(d)); !own.IsEmpty() && has.IsSubsetOf(g.of) {
		return own
	}
	return has
}

func (e *evaluator) cpusOf(g grant, found *collect.Container) Finding {
	has := found.Granted.CPUs
	f := Finding{
		State: StateOK, Claim: g.claim, What: fmt.Sprintf("container %s runs on %s", found.Name, strings.Join(g.what, ", ")),
		Why: fmt.Sprintf("CPUs %s, %s", has, nodeWords(e.nodesOf(has))),
	}
	differs := Difference{Of: "container " + found.Name, Attribute: "CPUs", Claimed: strings.Join(g.what, ", "), Observed: f.Why}
	outside := has.Difference(g.of)
	// Enough CPUs together may be too few of one device's.
	short := slices.IndexFunc(g.devices, func(d claimed) bool { return has.Intersection(e.group(d.device)).Size() < d.device.CPUCount })
	switch {
	case !outside.IsEmpty():
		f.wrong(CPUsWrong, fmt.Sprintf("CPUs %s, of which %s are of %s", has, outside, nodeWords(e.nodesOf(outside))), differs)
	case short >= 0:
		d := g.devices[short].device
		f.wrong(CPUsWrong, fmt.Sprintf("CPUs %s, of which %d of %s, not %d", has, has.Intersection(e.group(d)).Size(), d.Name, d.CPUCount), differs)
	case g.sized && has.Size() != g.count:
		f.wrong(CPUsWrong, fmt.Sprintf("CPUs %s are %d, not %d", has, has.Size(), g.count), differs)
	case len(g.notInEnv) == 0 && !g.inEnv.Equals(has):
		differs.Claimed += ": CPUs " + g.inEnv.String()
		f.wrong(CPUsWrong, fmt.Sprintf("CPUs %s; the driver gave it %s", has, g.inEnv), differs)
	case found.EnvErr != nil:
		f.State, f.Code, f.Why = StateUnknown, NotRead, found.EnvErr.Error()
	case !g.sized:
		f.State, f.Code, f.Why = StateUnknown, NotRead, fmt.Sprintf("CPUs %s; neither the claim nor a slice says how many", has)
	}
	return f
}

func (e *evaluator) memoryOf(g grant, found *collect.Container) Finding {
	has, near := found.Granted.Mems, e.nodesOf(found.Granted.CPUs)
	f := Finding{
		State: StateOK, Claim: g.claim, What: fmt.Sprintf("memory of container %s is beside its CPUs", found.Name),
		Why: fmt.Sprintf("memory of node %s, CPUs of node %s", has, near),
	}
	if has.IsSubsetOf(near) && !has.IsEmpty() {
		return f
	}
	switch {
	case e.lacksMemory(near):
		f.State, f.Why = StateNote, f.Why+", which has none"
	case !g.bindsMemory:
		f.State, f.Why = StateNote, f.Why+"; the driver of these CPUs does not bind memory"
	default:
		f.wrong(MemoryWide, f.Why, Difference{Of: "container " + found.Name, Attribute: "memory nodes", Claimed: "beside its CPUs: " + near.String(), Observed: has.String()})
	}
	return f
}

// lacksMemory says whether one of the nodes has no memory of its own.
func (e *evaluator) lacksMemory(nodes cpuset.CPUSet) bool {
	return slices.ContainsFunc(nodes.List(), func(id int) bool {
		n := e.m.NUMANode(id)
		return n != nil && n.MemoryBytes != nil && *n.MemoryBytes == 0
	})
}

func (e *evaluator) processesOf(g grant, found *collect.Container) Finding {
	f := Finding{
		State: StateOK, Claim: g.claim, What: fmt.Sprintf("no process of container %s may leave its CPUs", found.Name),
		Why: number(len(found.Processes), "process", "processes"),
	}
	for _, p := range found.Processes {
		cpus, mems := p.Allowed.CPUs.Difference(found.Granted.CPUs), p.Allowed.Mems.Difference(found.Granted.Mems)
		if !cpus.IsEmpty() || !mems.IsEmpty() {
			allowed := fmt.Sprintf("CPUs %s and memory of node %s", p.Allowed.CPUs, p.Allowed.Mems)
			f.wrong(ProcessOutside, fmt.Sprintf("process %d is allowed %s", p.PID, allowed), Difference{
				Of: fmt.Sprintf("process %d of container %s", p.PID, found.Name), Attribute: "allowed CPUs and memory",
				Claimed: fmt.Sprintf("CPUs %s and memory of node %s", found.Granted.CPUs, found.Granted.Mems), Observed: allowed,
			})
			return f
		}
	}
	return f
}

func (e *evaluator) threadsOf(g grant, found *collect.Container) Finding {
	f := Finding{State: StateOK, Claim: g.claim, What: fmt.Sprintf("no thread of container %s ran outside its CPUs", found.Name)}
	ran, all, outside := cpuset.New(), 0, 0
	first := ""
	for _, p := range found.Processes {
		for _, t := range p.Threads {
			all++
			if !t.Ran {
				continue
			}
			ran = ran.Union(cpuset.New(t.CPU))
			if !found.Granted.CPUs.Contains(t.CPU) {
				if outside++; outside == 1 {
					first = fmt.Sprintf("thread %d of process %d on CPU %d", t.ID, p.PID, t.CPU)
				}
			}
		}
	}
	threads := number(all, "thread", "threads")
	f.Why = fmt.Sprintf("%s, which last ran on CPUs %s", threads, ran)
	if ran.IsEmpty() {
		f.Why = threads + ", none of which ran since the look before"
	}
	if outside > 0 {
		f.wrong(ThreadOutside, fmt.Sprintf("%d did, such as %s", outside, first), Difference{
			Of: "container " + found.Name, Attribute: "CPUs of threads", Claimed: "CPUs " + found.Granted.CPUs.String(), Observed: first,
		})
	}
	return f
}

// unnamedCPUs notes CPUs that no container names: no container is pinned to them.
func (e *evaluator) unnamedCPUs() {
	for _, claim := range e.expected.Claims {
		for i := range claim.Devices {
			d := &claim.Devices[i]
			if d.Kind != expect.CPUs || d.Admin {
				continue
			}
			if !e.named(claim.Name, d) {
				e.add(Finding{State: StateNote, Claim: claim.Name, What: d.Request + ": " + cpuWords(d), Why: "no running container names them"})
			}
		}
	}
}

// nodesOf are the NUMA nodes of CPUs.
func (e *evaluator) nodesOf(cpus cpuset.CPUSet) cpuset.CPUSet { return nodesOf(e.m, cpus) }

func nodesOf(m *model.Machine, cpus cpuset.CPUSet) cpuset.CPUSet {
	var nodes []int
	for _, n := range m.NUMANodes {
		if !n.CPUs.Intersection(cpus).IsEmpty() {
			nodes = append(nodes, n.ID)
		}
	}
	return cpuset.New(nodes...)
}

func nodeWords(nodes cpuset.CPUSet) string {
	if nodes.IsEmpty() {
		return "no known NUMA node"
	}
	return "NUMA node " + nodes.String()
}
