// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimestate

import (
	"slices"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
)

// State is what the container runtime last said it runs. A connection
// begins by filling it, the hooks keep it current.
type State struct {
	// FindNetns is the path of the network namespace of a process, "" where that has
	// none of its own; nil: it cannot be found. It is set before the first connection.
	FindNetns func(pid uint32) string

	mu         sync.Mutex
	sandboxes  map[string]Sandbox // by sandbox ID
	containers map[string]Running
}

// Reset replaces everything. What is known of who chose a container's CPUs stays
// known.
func (s *State) Reset(pods []*api.PodSandbox, containers []*api.Container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.containers
	s.sandboxes = map[string]Sandbox{}
	s.containers = map[string]Running{}
	for _, p := range pods {
		f := s.sandboxOf(p)
		// containerd leaves the namespace out when it is gone, as of a pod in the
		// host's network (internal/cri/nri, GetLinuxNamespaces); the process tells
		// them apart. A sandbox of a hook is not one that has stopped.
		f.Stopped = f.Netns == "" && p.GetPid() == 0
		s.sandboxes[p.GetId()] = f
	}
	for _, c := range containers {
		if stopped(c) {
			continue
		}
		facts := ContainerOf(c)
		if known, ok := before[c.GetId()]; ok {
			facts.RequestedCPUs = known.Container.RequestedCPUs
		}
		s.containers[c.GetId()] = Running{Sandbox: s.sandboxes[c.GetPodSandboxId()], Container: facts}
	}
}

// SandboxOf reads what a hook shows of a sandbox, with what is known of it where the
// runtime has lost that: containerd, killed between the start of a sandbox and the end
// of RunPodSandbox, keeps the sandbox without its spec, and lists no namespace of any
// kind for it (internal/cri/nri, nriPodSandbox). The kubelet goes on with such a sandbox.
func (s *State) SandboxOf(p *api.PodSandbox) Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sandboxOf(p)
}

func (s *State) sandboxOf(p *api.PodSandbox) Sandbox {
	f := SandboxOf(p)
	if len(p.GetLinux().GetNamespaces()) > 0 {
		return f
	}
	if f.Netns = s.sandboxes[p.GetId()].Netns; f.Netns == "" && p.GetPid() != 0 && s.FindNetns != nil {
		f.Netns = s.FindNetns(p.GetPid())
	}
	return f
}

// AddSandbox remembers a sandbox that is about to run.
func (s *State) AddSandbox(id string, f Sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sandboxes == nil {
		s.sandboxes = map[string]Sandbox{}
	}
	s.sandboxes[id] = f
}

// RemoveSandbox forgets a sandbox that has stopped, is removed, or was refused.
func (s *State) RemoveSandbox(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sandboxes, id)
}

// HasSandbox says whether the runtime has listed the sandbox, or it was let in
// since.
func (s *State) HasSandbox(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.sandboxes[id]
	return ok
}

// SetContainer remembers a container, instead of what was known of its ID.
func (s *State) SetContainer(c Running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.containers == nil {
		s.containers = map[string]Running{}
	}
	s.containers[c.Container.ID] = c
}

// RemoveContainer forgets a container.
func (s *State) RemoveContainer(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.containers, id)
}

// Disown notes that the CPUs a container has by the runtime's word are those
// that claims leave now: it was moved by an agent before this one.
func (s *State) Disown(pool cpuset.CPUSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.containers {
		if !c.Container.RequestedCPUs.IsEmpty() && c.Container.RequestedCPUs.Equals(pool) {
			c.Container.RequestedCPUs = cpuset.New()
			s.containers[id] = c
		}
	}
}

// Placed notes where the runtime has moved a container.
func (s *State) Placed(id, cpus, mems string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.containers[id]
	if !ok {
		return
	}
	if cpus != "" {
		c.Container.CPUs = cpus
	}
	if mems != "" {
		c.Container.Mems = mems
	}
	s.containers[id] = c
}

// Running lists the containers in the order of their IDs.
func (s *State) Running() []Running {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Running
	for _, c := range s.containers {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Running) int { return strings.Compare(a.Container.ID, b.Container.ID) })
	return all
}

// Sandbox is one of a pod whose network namespace still exists. A pod may have
// had several; only the last one's namespace is there.
func (s *State) Sandbox(pod types.UID) (Sandbox, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.sandboxes {
		if f.UID == pod && f.hasNamespace() {
			return f, true
		}
	}
	return Sandbox{}, false
}

// Runs says whether a sandbox of the pod may have containers: one that has stopped
// has no network namespace any more.
func (s *State) Runs(pod types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.sandboxes {
		if f.UID == pod && !f.Stopped && (f.Netns == "" || f.hasNamespace()) {
			return true
		}
	}
	return false
}

// Lives says whether the runtime has a sandbox, and its network namespace still
// exists.
func (s *State) Lives(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.sandboxes[id]
	return ok && f.hasNamespace()
}

// Known is a container with what is remembered of who chose its CPUs.
func (s *State) Known(c Running) Running {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.containers[c.Container.ID]; ok {
		c.Container.RequestedCPUs = before.Container.RequestedCPUs
	}
	return c
}
