// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/cdi"
)

// state is what the container runtime last said it runs. A connection
// begins by filling it, the hooks keep it current.
type state struct {
	mu         sync.Mutex
	sandboxes  map[string]sandboxFacts // by sandbox ID
	containers map[string]runningContainer
}

type runningContainer struct {
	sandbox sandboxFacts
	facts   containerFacts
}

// reset replaces everything. What is known of who chose a container's CPUs stays
// known.
func (s *state) reset(pods []*api.PodSandbox, containers []*api.Container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.containers
	s.sandboxes = map[string]sandboxFacts{}
	s.containers = map[string]runningContainer{}
	for _, p := range pods {
		f := sandboxOf(p)
		// containerd leaves the namespace out when it is gone, as of a pod in the
		// host's network (internal/cri/nri, GetLinuxNamespaces); the process tells
		// them apart. What a hook tells of is not asked: it has not stopped.
		f.Stopped = f.Netns == "" && p.GetPid() == 0
		s.sandboxes[p.GetId()] = f
	}
	for _, c := range containers {
		if stopped(c) {
			continue
		}
		facts := containerOf(c)
		if known, ok := before[c.GetId()]; ok {
			facts.RequestedCPUs = known.facts.RequestedCPUs
		}
		s.containers[c.GetId()] = runningContainer{sandbox: s.sandboxes[c.GetPodSandboxId()], facts: facts}
	}
}

func stopped(c *api.Container) bool { return c.GetState() == api.ContainerState_CONTAINER_STOPPED }

func (s *state) addSandbox(id string, f sandboxFacts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sandboxes == nil {
		s.sandboxes = map[string]sandboxFacts{}
	}
	s.sandboxes[id] = f
}

func (s *state) removeSandbox(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sandboxes, id)
}

// hasSandbox says whether the runtime has listed the sandbox, or it was let in
// since.
func (s *state) hasSandbox(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.sandboxes[id]
	return ok
}

func (s *state) setContainer(c runningContainer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.containers == nil {
		s.containers = map[string]runningContainer{}
	}
	s.containers[c.facts.ID] = c
}

func (s *state) removeContainer(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.containers, id)
}

// disown notes that the CPUs a container has by the runtime's word are those
// that claims leave now: it was moved by an agent before this one.
func (s *state) disown(pool cpuset.CPUSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.containers {
		if !c.facts.RequestedCPUs.IsEmpty() && c.facts.RequestedCPUs.Equals(pool) {
			c.facts.RequestedCPUs = cpuset.New()
			s.containers[id] = c
		}
	}
}

// placed notes where the runtime has moved a container.
func (s *state) placed(id string, moved change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.containers[id]
	if !ok {
		return
	}
	if moved.CPUs != "" {
		c.facts.CPUs = moved.CPUs
	}
	if moved.Mems != "" {
		c.facts.Mems = moved.Mems
	}
	s.containers[id] = c
}

// running lists the containers in the order of their IDs.
func (s *state) running() []runningContainer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []runningContainer
	for _, c := range s.containers {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b runningContainer) int { return strings.Compare(a.facts.ID, b.facts.ID) })
	return all
}

// sandbox is one of a pod whose network namespace still exists. A pod may have
// had several; only the last one's namespace is there.
func (s *state) sandbox(pod types.UID) (sandboxFacts, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.sandboxes {
		if f.UID == pod && f.hasNamespace() {
			return f, true
		}
	}
	return sandboxFacts{}, false
}

// runs says whether a sandbox of the pod may have containers: one that has stopped
// has no network namespace any more.
func (s *state) runs(pod types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.sandboxes {
		if f.UID == pod && !f.Stopped && (f.Netns == "" || f.hasNamespace()) {
			return true
		}
	}
	return false
}

// lives says whether the runtime has a sandbox, and its network namespace still
// exists.
func (s *state) lives(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.sandboxes[id]
	return ok && f.hasNamespace()
}

func (f sandboxFacts) hasNamespace() bool {
	if f.Netns == "" {
		return false
	}
	_, err := os.Stat(f.Netns)
	return err == nil
}

// ownCPUs is the annotation of containers that were given CPUs by us when they
// were made. Its value are those that somebody else had chosen, or nothing.
const ownCPUs = "plumbline.dev/own-cpus"

// memlock is the resource's name in the runtime's words.
const memlock = "RLIMIT_MEMLOCK"

func sandboxOf(p *api.PodSandbox) sandboxFacts {
	f := sandboxFacts{ID: p.GetId(), UID: types.UID(p.GetUid()), Namespace: p.GetNamespace(), Name: p.GetName()}
	// The kubelet writes this into every pod (pkg/kubelet/types, ConfigSourceAnnotationKey).
	source := p.GetAnnotations()["kubernetes.io/config.source"]
	f.Static = source == "file" || source == "http"
	for _, ns := range p.GetLinux().GetNamespaces() {
		if ns.GetType() == "network" {
			f.Netns = ns.GetPath()
		}
	}
	return f
}

func containerOf(c *api.Container) containerFacts {
	f := containerFacts{ID: c.GetId(), Name: c.GetName()}
	for _, env := range c.GetEnv() {
		if cdi.Ours(env) {
			f.Env = append(f.Env, env)
		}
	}
	for _, d := range c.GetCDIDevices() {
		f.CDI = append(f.CDI, d.GetName())
	}
	for _, l := range c.GetRlimits() {
		f.Memlock = f.Memlock || l.GetType() == memlock
	}
	f.Group = c.GetLinux().GetCgroupsPath()
	cpu := c.GetLinux().GetResources().GetCpu()
	f.CPUs, f.Mems = cpu.GetCpus(), cpu.GetMems()
	own, ours := c.GetAnnotations()[ownCPUs]
	if !ours {
		own = f.CPUs
	}
	// What nobody can read is nobody's choice: the set is narrowed all the same.
	f.RequestedCPUs, _ = cpuset.Parse(own)
	return f
}

// known is a container with what is remembered of who chose its CPUs.
func (s *state) known(c runningContainer) runningContainer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.containers[c.facts.ID]; ok {
		c.facts.RequestedCPUs = before.facts.RequestedCPUs
	}
	return c
}
