// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
)

// change is what a container still lacks.
type change struct {
	Env, CDI   []string
	CPUs, Mems string
	// RequestedCPUs is what is to be remembered of the CPUs that it comes with; nil where
	// that is remembered.
	RequestedCPUs *string
	// Memlock: it must be able to lock any amount of memory.
	Memlock bool
}

// share is a container's part of a record.
type share struct {
	record  driver.Record
	devices []int
	// podLevel: no container names the claim, so every one has all of it, and
	// the kubelet has injected nothing.
	podLevel bool
}

// part is the record reduced to the container's devices.
func (s share) part() driver.Record {
	r := s.record
	r.Devices = nil
	for _, i := range s.devices {
		r.Devices = append(r.Devices, s.record.Devices[i])
	}
	return r
}

func holds(r driver.Record, pod types.UID) bool {
	return slices.ContainsFunc(r.Pods, func(p driver.PodRef) bool { return p.UID == pod })
}

// mustBeKnown says whether the pod must not run before the API watch has
// shown it: it could use a claim that another pod holds, of which the kubelet
// asks no driver. What the journal gives the pod the journal knows, a pod in the
// host's network must not wait, since the API server may be out of reach until it
// runs, where nothing is held there is nothing to take, and what a sandbox has it
// was given when it came up.
func mustBeKnown(s runtimestate.Sandbox, records []driver.Record, unreadable bool) bool {
	if s.Static || s.Admitted || s.Netns == "" {
		return false
	}
	for _, r := range records {
		if holds(r, s.UID) {
			return false
		}
	}
	return len(records) > 0 || unreadable
}

// mayBeUnreadable says whether a record that cannot be read may be of the pod:
// whether it uses a claim of which there is no readable one.
func mayBeUnreadable(s runtimestate.Sandbox, records []driver.Record, facts *kube.Pod) bool {
	if s.Static {
		return false
	}
	if facts == nil {
		return true
	}
	return slices.ContainsFunc(facts.Claims, func(claim string) bool {
		return !slices.ContainsFunc(records, func(r driver.Record) bool {
			return r.Claim.Namespace == facts.Namespace && r.Claim.Name == claim && holds(r, s.UID)
		})
	})
}

// admitSandbox returns the pod's records, or refuses it. moves says of which
// records something goes into a namespace; facts is nil while the pod is unknown to
// the API watch.
func admitSandbox(s runtimestate.Sandbox, records []driver.Record, facts *kube.Pod, moves func(driver.Record) bool) ([]driver.Record, error) {
	var mine []driver.Record
	for _, r := range records {
		switch {
		case holds(r, s.UID) && s.Netns == "" && moves(r):
			return nil, fmt.Errorf("pod %s uses the host's network, so claim %s of %s cannot give it an interface: want hostNetwork: false", s, r.Claim, r.Driver)
		case holds(r, s.UID):
			mine = append(mine, r)
		case uses(facts, r) && !replaced(r, records, s.UID):
			return nil, refuseSecondPod(s, r)
		}
	}
	return mine, nil
}

// uses says whether a pod names the record's claim; one that is unknown does not.
func uses(facts *kube.Pod, r driver.Record) bool {
	return facts != nil && facts.Namespace == r.Claim.Namespace && slices.Contains(facts.Claims, r.Claim.Name)
}

// replaced says whether the pod holds another claim of the record's name: its own was
// deleted, and the devices have yet to come back.
func replaced(r driver.Record, records []driver.Record, pod types.UID) bool {
	return slices.ContainsFunc(records, func(o driver.Record) bool {
		return o.Driver == r.Driver && o.Claim.UID != r.Claim.UID && o.Claim.String() == r.Claim.String() && holds(o, pod)
	})
}

func refuseSecondPod(s runtimestate.Sandbox, r driver.Record) error {
	var names []string
	for _, p := range r.Pods {
		names = append(names, p.Name)
	}
	return fmt.Errorf("claim %s of %s is held by pod %s, so pod %s cannot have it: want a claim per pod, as resourceClaimTemplateName gives",
		r.Claim, r.Driver, strings.Join(names, ", "), s)
}

// sharesOf says what of the records a container has: the devices that it names,
// or all of a claim that no container of the pod names.
func sharesOf(s runtimestate.Sandbox, c runtimestate.Container, records []driver.Record, facts *kube.Pod) ([]share, error) {
	var shares []share
	for _, r := range records {
		named := namedDevices(r, c)
		mine := holds(r, s.UID)
		switch {
		case len(named) > 0 && !mine:
			return nil, refuseSecondPod(s, r)
		case len(named) > 0:
			shares = append(shares, share{record: r, devices: named})
		case !mine:
		case facts == nil:
			return nil, fmt.Errorf("pod %s holds claim %s of %s, and the API watch has not shown yet which of its containers name it", s, r.Claim, r.Driver)
		case !facts.Named[r.Claim.Name] && slices.Contains(facts.Claims, r.Claim.Name):
			all := make([]int, len(r.Devices))
			for i := range all {
				all[i] = i
			}
			shares = append(shares, share{record: r, devices: all, podLevel: true})
		}
	}
	return shares, nil
}

// namedDevices are the devices that the kubelet injected. Runtimes that do not
// tell a container's CDI devices show their environment all the same.
func namedDevices(r driver.Record, c runtimestate.Container) []int {
	var named []int
	for i := range r.Devices {
		if slices.Contains(c.CDI, cdi.ID(r, i)) || slices.Contains(c.Env, cdi.Marker(r, i)) {
			named = append(named, i)
		}
	}
	return named
}

// adjust says what a container lacks of its shares and of its placement.
func adjust(c runtimestate.Container, shares []share, pin driver.Pin) change {
	var out change
	for _, s := range shares {
		if !s.podLevel {
			continue
		}
		for _, i := range s.devices {
			// The marker also tells a second agent that the device is there:
			// the runtime takes each CDI device once.
			if marker := cdi.Marker(s.record, i); !slices.Contains(c.Env, marker) {
				out.Env = append(out.Env, marker)
				out.CDI = append(out.CDI, cdi.ID(s.record, i))
			}
		}
	}
	for _, env := range pin.Env {
		if !slices.Contains(c.Env, env) {
			out.Env = append(out.Env, env)
		}
	}
	if cpus := pin.CPUs.String(); cpus != c.CPUs {
		out.CPUs = cpus
	}
	if own := c.RequestedCPUs.String(); own == c.CPUs {
		out.RequestedCPUs = &own
	}
	if mems := pin.Mems.String(); mems != c.Mems {
		out.Mems = mems
	}
	return out
}
