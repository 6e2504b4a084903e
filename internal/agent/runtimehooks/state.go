// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/types"
)

// state is what the container runtime last said it runs. A connection
// begins by filling it, the hooks keep it current.
type state struct {
	mu         sync.Mutex
	sandboxes  map[string]sandboxFacts // by sandbox ID
	containers map[string]runningContainer
	// confined are the IDs of containers whose CPUs are those that claims left
	// when we placed them. Other cpusets are the kubelet's, and stay.
	confined map[string]bool
}

type runningContainer struct {
	sandbox sandboxFacts
	facts   containerFacts
	// confined: its CPUs are ours to give back.
	confined bool
}

// reset replaces everything.
func (s *state) reset(pods []*api.PodSandbox, containers []*api.Container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sandboxes = map[string]sandboxFacts{}
	s.containers = map[string]runningContainer{}
	for _, p := range pods {
		s.sandboxes[p.GetId()] = sandboxOf(p)
	}
	for _, c := range containers {
		if stopped(c) {
			continue
		}
		s.containers[c.GetId()] = runningContainer{sandbox: s.sandboxes[c.GetPodSandboxId()], facts: containerOf(c)}
	}
	maps.DeleteFunc(s.confined, func(id string, _ bool) bool { _, runs := s.containers[id]; return !runs })
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
	delete(s.confined, id)
}

// confine notes that a container's CPUs are ours to give back.
func (s *state) confine(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.confined == nil {
		s.confined = map[string]bool{}
	}
	s.confined[id] = true
}

// placed notes where a container has been moved.
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
	for id, c := range s.containers {
		c.confined = s.confined[id]
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b runningContainer) int {
		if a.facts.ID < b.facts.ID {
			return -1
		}
		return 1
	})
	return all
}

// netns is the network namespace of a pod that still exists, or empty. A pod
// may have had several sandboxes; only the last one's namespace is there.
func (s *state) netns(pod types.UID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.sandboxes {
		if f.UID != pod || f.Netns == "" {
			continue
		}
		if _, err := os.Stat(f.Netns); err == nil {
			return f.Netns
		}
	}
	return ""
}

// memlock is the resource's name in the runtime's words.
const memlock = "RLIMIT_MEMLOCK"

func sandboxOf(p *api.PodSandbox) sandboxFacts {
	f := sandboxFacts{UID: types.UID(p.GetUid()), Namespace: p.GetNamespace(), Name: p.GetName()}
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
	f := containerFacts{ID: c.GetId(), Name: c.GetName(), Env: c.GetEnv()}
	for _, d := range c.GetCDIDevices() {
		f.CDI = append(f.CDI, d.GetName())
	}
	for _, l := range c.GetRlimits() {
		f.Memlock = f.Memlock || l.GetType() == memlock
	}
	cpu := c.GetLinux().GetResources().GetCpu()
	f.CPUs, f.Mems = cpu.GetCpus(), cpu.GetMems()
	return f
}
