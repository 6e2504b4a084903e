// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimestate

import (
	"github.com/containerd/nri/pkg/api"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/cdi"
)

// OwnCPUs is the annotation of containers that this plugin gave CPUs when they
// were created. Its value is the set that was requested before, or empty.
const OwnCPUs = "plumbline.dev/own-cpus"

// RlimitMemlock is the resource's name as the runtime spells it.
const RlimitMemlock = "RLIMIT_MEMLOCK"

// Container is a container as the runtime shows it, adjustments of
// earlier plugins included.
type Container struct {
	ID, Name string
	CDI      []string
	// Env is what drivers have set of the environment.
	Env []string
	// CPUs and Mems are the runtime's; the control group may differ.
	CPUs, Mems string
	// RequestedCPUs is the set that it has from elsewhere, such as another plugin.
	RequestedCPUs cpuset.CPUSet
	// Group is its control group as the runtime calls it.
	Group string
	// Memlock: it has a limit of locked memory, whoever set it.
	Memlock bool
}

// Running is a container and the sandbox it is in.
type Running struct {
	Sandbox   Sandbox
	Container Container
}

// ContainerOf reads what a hook or the listing shows of a container.
func ContainerOf(c *api.Container) Container {
	f := Container{ID: c.GetId(), Name: c.GetName()}
	for _, env := range c.GetEnv() {
		if cdi.Ours(env) {
			f.Env = append(f.Env, env)
		}
	}
	for _, d := range c.GetCDIDevices() {
		f.CDI = append(f.CDI, d.GetName())
	}
	for _, l := range c.GetRlimits() {
		f.Memlock = f.Memlock || l.GetType() == RlimitMemlock
	}
	f.Group = c.GetLinux().GetCgroupsPath()
	cpu := c.GetLinux().GetResources().GetCpu()
	f.CPUs, f.Mems = cpu.GetCpus(), cpu.GetMems()
	own, ours := c.GetAnnotations()[OwnCPUs]
	if !ours {
		own = f.CPUs
	}
	// A set that cannot be parsed counts as none requested: it is narrowed all the same.
	f.RequestedCPUs, _ = cpuset.Parse(own)
	return f
}

func stopped(c *api.Container) bool { return c.GetState() == api.ContainerState_CONTAINER_STOPPED }
