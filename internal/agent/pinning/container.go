// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"fmt"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/cgroup"
)

// Container is one container of the node, as far as its place depends on it.
type Container struct {
	// ID is the runtime's.
	ID        string
	Name      string
	Namespace string
	Pod       driver.PodRef
	// Group is its control group as the runtime calls it.
	Group string
	// RequestedCPUs are the CPUs that somebody else gave it when it was created, such as
	// another plugin of the runtime; empty: nobody did.
	RequestedCPUs cpuset.CPUSet
	// Pin is what its claims give it; without CPUs it shares the pool.
	Pin driver.Pin
	// AllLimited: every container of the pod has a CPU limit, so that the pod's
	// own quota is no more than their sum and may go.
	AllLimited bool
	// Skip: what it holds is in doubt, and it stays where it is.
	Skip bool
}

// String is "namespace/pod, container name".
func (c Container) String() string {
	return fmt.Sprintf("%s/%s, container %s", c.Namespace, c.Pod.Name, c.Name)
}

// Exclusive says whether the container has CPUs of its own.
func (c Container) Exclusive() bool { return !c.Pin.CPUs.IsEmpty() }

// Wanted is where a container belongs while those without claims share pool; an
// empty pool is every CPU. Empty sets leave the choice to the groups around it.
// CPUs that somebody else chose are narrowed, and never widened.
func Wanted(c Container, pool cpuset.CPUSet) cgroup.Placement {
	switch both := c.RequestedCPUs.Intersection(pool); {
	case c.Exclusive():
		return cgroup.Placement{CPUs: c.Pin.CPUs, Mems: c.Pin.Mems}
	case pool.IsEmpty():
		return cgroup.Placement{CPUs: c.RequestedCPUs}
	case !both.IsEmpty():
		return cgroup.Placement{CPUs: both}
	}
	return cgroup.Placement{CPUs: pool}
}
